"""The layers of a network on one accelerator: time under every execution, power-limited time and energy, and speedup over a baseline.

The firmware of a device holds its mean power over milliseconds, longer than most layers take, so layers that are limited one by one take
at least as long as the network does.
"""

from typing import NamedTuple

import jax
import numpy as np
import xarray as xr
from jaxtyping import Bool, Float, Int, Shaped

from dse.base.errors import InputError
from dse.model.cost.coefficients import check_process, has_known_process
from dse.model.cost.design import Design
from dse.model.cost.energy import execution_preference, layer_energy
from dse.model.cost.power import POWER_TOLERANCE, power, power_limited_time, static_power, supplied_share
from dse.model.efficiency.interval import quantiles
from dse.model.efficiency.probability import probability_above_one
from dse.model.host_time import add_waits
from dse.model.rates import UNIT_TERMS, inverse_rates
from dse.model.roofline import Combination, choose, execution_times, fastest, resource_times
from dse.model.terms import LayerTerms
from dse.networks.layers import LayerArrays
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import Fidelity, ModelOptions, ResourceOverlap

LatencySamples = Float[np.ndarray, "sample layer"]  # sample 0 is the best estimate of fitted kernels, the only sample without them
SPEEDUP_ATTRS = {
    "baseline_latency": {"units": "s", "long_name": "time of all repeats of the layer in the baseline"},
    "speedup": {"units": "1", "long_name": "latency in the baseline / latency"},
    "speedup_low": {"units": "1", "long_name": "5% quantile of the speedup over samples of the fitted kernels"},
    "speedup_high": {"units": "1", "long_name": "95% quantile of the speedup over samples of the fitted kernels"},
    "faster_probability": {"units": "1", "long_name": "probability that the layer is faster than in the baseline"},
}
POWER_RESOURCE = "power"  # the name of the power limit among the resources that bound a layer


class LayerTimes(NamedTuple):
    """Times of one instance of each layer [s]; `by_execution` is infinite where the execution is not legal. Sample 0 is the best estimate
    of fitted kernels, the only sample without them. `power_limited` says where a power limit sets the time, if one does."""

    by_resource: Float[np.ndarray, "resource sample layer execution"]
    by_execution: Float[np.ndarray, "sample layer execution"]
    power_limited: Bool[np.ndarray, "layer execution"] | None = None


def layer_times(terms: LayerTerms, inverse_rates: Float[np.ndarray, "execution term"], overlap: ResourceOverlap) -> LayerTimes:
    """The times of all samples at the inverse rates of one accelerator; resources are the unit, its decoder, then the memories."""
    combination = Combination(UNIT_TERMS, overlap)
    work = np.moveaxis(terms.slowed_work, (2, 3), (0, 1))  # [execution, term, sample, layer]
    overhead = None if terms.overhead is None else np.moveaxis(terms.overhead, 2, 0)
    with jax.enable_x64(True):
        resources = [resource_times(amounts, rates, UNIT_TERMS) for amounts, rates in zip(work, inverse_rates, strict=True)]
        times = execution_times(work, terms.legal.T, overhead, inverse_rates, combination)
    return LayerTimes(np.moveaxis(np.array(resources), 0, -1), np.stack(times, axis=-1))


def latency_samples(terms: LayerTerms, accelerator: Accelerator, options: ModelOptions, power_limited: bool = False) -> LatencySamples:
    """Latency of all repeats of each layer [s], with its share of the waits for the host."""
    times, design = layer_times(terms, inverse_rates(terms.executions, accelerator), options.resource_overlap), Design(accelerator)
    if power_limited:
        times = limit_power(times, terms, design, energy_share(times, terms, design, options.fidelity))
    return add_waits(fastest_times(times) * terms.count, terms.host)


def fastest_times(times: LayerTimes) -> Float[np.ndarray, "sample layer"]:
    """Time of the fastest execution of each layer [s]."""
    with jax.enable_x64(True):
        return np.asarray(fastest(list(np.moveaxis(times.by_execution, -1, 0))))


def check_same_layers(layers: LayerArrays, baseline: LayerArrays) -> None:
    """Raises InputError if the layers of a baseline have other names."""
    if not np.array_equal(layers.name, baseline.name):
        raise InputError("the baseline has other layers", "give a variant of the same workload with the same inputs")


def speedup_over_baseline(latency: LatencySamples, baseline: LatencySamples) -> dict[str, xr.DataArray]:
    """The variables of `SPEEDUP_ATTRS` of each layer from latencies [s]; 1 for a layer that takes no time in either."""
    with np.errstate(divide="ignore", invalid="ignore"):
        speedup = np.where(latency == baseline, 1.0, baseline / latency)
    columns = {"baseline_latency": baseline[0], "speedup": speedup[0]}
    if len(speedup) > 1:
        low, high = quantiles(speedup[1:])
        columns |= {"speedup_low": low, "speedup_high": high, "faster_probability": probability_above_one(speedup[0], low, high)}
    return {name: xr.DataArray(values, dims="layer", attrs=SPEEDUP_ATTRS[name]) for name, values in columns.items()}


def choose_executions(times: LayerTimes, terms: LayerTerms, accelerator: Accelerator) -> Int[np.ndarray, "layer"]:
    """The fastest execution of each layer, of equals the preferred one."""
    preference = execution_preference(terms, accelerator)
    with jax.enable_x64(True):
        return np.asarray(choose(list(times.by_execution[0].T), list(preference.T)), int)


def energy_share(times: LayerTimes, terms: LayerTerms, design: Design, fidelity: Fidelity) -> float:
    """The share of the modelled energies of a network that the stated power supplies in these times: see `supplied_share`."""
    if fidelity != "calibrated" or not has_known_process(design):
        return 1.0
    choice = choose_executions(times, terms, design.accelerator)
    modelled, latency = (of_chosen(each, choice) * terms.count for each in (layer_energy(terms, design), times.by_execution[0]))
    waited = latency if terms.host is None else add_waits(latency[None], terms.host.best)[0]
    return float(supplied_share(design, modelled.sum(), waited.sum(), fidelity))


def limit_power(times: LayerTimes, terms: LayerTerms, design: Design, share: float) -> LayerTimes:
    """Times of at least the supplied `share` of the dynamic energy over the power that remains for it.

    Raises InputError for a design without a known process, or with an idle power that leaves nothing.
    """
    check_process(design)
    limit, static = power(design), static_power(design)
    if limit <= static:
        what = f"'{design.accelerator.name}' takes {static:.3g} W idle, but has {limit:.3g} W"
        raise InputError(what, "raise 'cost.power', or evaluate without a power limit")
    shortest = power_limited_time(0.0, share * layer_energy(terms, design), limit, static)
    limited = np.where(terms.legal, shortest > times.by_execution[0] * (1 + POWER_TOLERANCE), False)
    return times._replace(by_execution=np.maximum(times.by_execution, shortest), power_limited=limited)


def energy_columns(
    terms: LayerTerms, design: Design, choice: np.ndarray, latency: np.ndarray, share: float
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Energy [J] and power-limited latency [s] of each layer under its chosen execution, and a warning if the power limits the network.

    Of the modelled energy of its work the supplied `share` counts. Nothing for a design without a known process.
    """
    if not has_known_process(design):
        return {}, []
    modelled, static, limit = of_chosen(layer_energy(terms, design), choice) * terms.count, static_power(design), power(design)
    dynamic = share * modelled
    columns = {"energy": dynamic + static * latency, "power_limited_latency": power_limited_time(latency, dynamic, limit, static)}
    modelled_average = float((modelled + static * latency).sum() / latency.sum())
    if design.value("cost.power") is None or modelled_average <= limit * (1 + POWER_TOLERANCE):
        return columns, []
    slowdown = float(columns["power_limited_latency"].sum() / latency.sum())
    return columns, [_power_warning(modelled_average, float(limit), slowdown, share)]


def _power_warning(average: float, limit: float, slowdown: float, share: float) -> str:
    if share < 1:
        return f"power limits this network: {average:.4g} W on average by the modelled energies, counted as the {limit:.4g} W of the design"
    return f"{average:.4g} W on average, above the {limit:.4g} W of the design: at this, its layers take {slowdown:.3g} times as long"


def of_chosen(values: Shaped[np.ndarray, "layer execution"], choice: Int[np.ndarray, "layer"]) -> Shaped[np.ndarray, "layer"]:
    """The values of the chosen execution of each layer."""
    return np.take_along_axis(values, choice[:, None], axis=1)[:, 0]
