"""Energy of the layers of a network, and the time that the power of the design leaves them.

The firmware of a device holds its mean power over milliseconds, longer than most layers take, so layers that are limited one by one take
at least as long as the network does.
"""

from collections.abc import Mapping

import numpy as np

from dse.base.errors import InputError
from dse.model.cost.coefficients import check_process, has_known_process
from dse.model.cost.design import Design
from dse.model.cost.energy import layer_energy
from dse.model.cost.power import POWER_TOLERANCE, power, power_limited_time, static_power
from dse.model.layer_times import LayerTimes
from dse.model.terms import LayerTerms
from dse.schema.accelerator import Accelerator

POWER_RESOURCE = "power"  # the name of the power limit among the resources that bound a layer


def limit_power(times: LayerTimes, terms: LayerTerms, design: Design, dtype: str) -> LayerTimes:
    """Times of at least the dynamic energy over the power that remains for it.

    Raises InputError for a design without a known process, or with an idle power that leaves nothing.
    """
    check_process(design)
    limit, static = power(design), static_power(design)
    if limit <= static:
        what = f"'{design.accelerator.name}' takes {static:.3g} W idle, but has {limit:.3g} W"
        raise InputError(what, "raise 'cost.power', or evaluate without a power limit")
    shortest = power_limited_time(0.0, layer_energy(terms, design, dtype), limit, static)
    limited = np.where(terms.legal, shortest > times.by_execution[0] * (1 + POWER_TOLERANCE), False)
    return times._replace(by_execution=np.maximum(times.by_execution, shortest), power_limited=limited)


def energy_columns(terms: LayerTerms, design: Design, dtype: str, choice: np.ndarray, latency: np.ndarray) -> dict[str, np.ndarray]:
    """Energy [J] and power-limited latency [s] of each layer under its chosen execution; nothing for a design without a known process."""
    if not has_known_process(design):
        return {}
    chosen = np.take_along_axis(layer_energy(terms, design, dtype), choice[:, None], axis=1)[:, 0]
    dynamic, static = chosen * terms.count, static_power(design)
    return {
        "energy": dynamic + static * latency,
        "power_limited_latency": power_limited_time(latency, dynamic, power(design), static),
    }


def power_warnings(accelerator: Accelerator, columns: Mapping[str, np.ndarray]) -> list[str]:
    """A warning about a network whose average power is above the stated one."""
    limit = accelerator.value("cost.power")
    if limit is None or "energy" not in columns:
        return []
    average = float(columns["energy"].sum() / columns["latency"].sum())
    if average <= limit * (1 + POWER_TOLERANCE):
        return []
    slowdown = float(columns["power_limited_latency"].sum() / columns["latency"].sum())
    return [f"{average:.3g} W on average, above the {limit:.3g} W of the design: at this, its layers take {slowdown:.3g} times as long"]
