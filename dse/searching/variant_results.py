"""Latency and energy of every variant on the designs of one categorical configuration, in batches of few sizes, each compiled once."""

from collections.abc import Mapping

import jax
import numpy as np
from jaxtyping import Float

from dse.model.cost.design import Design
from dse.model.efficiency.fitted import LAUNCH_LATENCY
from dse.schema.accelerator import Accelerator
from dse.searching.batch_evaluator import Batch, compiled_evaluate_batch
from dse.searching.categorical_config import CategoricalConfig

MIN_BATCH = 64  # designs evaluated at once: smaller batches are padded
MAX_SPLIT = 256  # designs that are evaluated in parts of the smallest size

PerVariant = Float[np.ndarray, "variant design"]


def evaluate_variants(
    config: CategoricalConfig,
    described: Accelerator,
    values: Mapping[str, np.ndarray],
    count: int,
    slowdown: Float[np.ndarray, "execution"] | None = None,
) -> tuple[PerVariant, PerVariant | None]:
    """Latency [s] and, if the search needs it, energy of the work [J] of `count` designs with the given values.

    `described`: the device that the designs vary. A batch is padded to a power of four, so that few sizes are compiled; a small one is
    split, which takes less time than to compile.
    """
    if not MIN_BATCH < count <= MAX_SPLIT:
        return _evaluate_padded(config, described, values, count, slowdown)
    full = {path: np.broadcast_to(column, count) for path, column in values.items()}
    parts = [
        _evaluate_padded(
            config,
            described,
            {path: column[start : start + MIN_BATCH] for path, column in full.items()},
            min(MIN_BATCH, count - start),
            slowdown,
        )
        for start in range(0, count, MIN_BATCH)
    ]
    latencies, energies = zip(*parts, strict=True)
    return np.concatenate(latencies, axis=1), None if energies[0] is None else np.concatenate(energies, axis=1)


def _evaluate_padded(
    config: CategoricalConfig,
    described: Accelerator,
    values: Mapping[str, np.ndarray],
    count: int,
    slowdown: Float[np.ndarray, "execution"] | None,
) -> tuple[PerVariant, PerVariant | None]:
    size = MIN_BATCH
    while size < count:
        size *= 4
    padded = {path: np.resize(column, size) for path, column in values.items()}
    batch = Batch(
        values=np.stack([*padded.values(), np.ones(size)])[:-1],  # also where there are no values
        entries=config.table_entries(padded, size),
        overhead_factor=padded.get(LAUNCH_LATENCY, np.ones(size)),
        slowdown=np.ones(len(config.executions)) if slowdown is None else slowdown,
        host_time=config.host_times(padded),
        action_energies=config.action_energies(Design(config.accelerator, padded, described)),
    )
    with jax.enable_x64(True):
        latency, energy = compiled_evaluate_batch(batch, config.arrays, combination=config.combination)
        return np.asarray(latency)[:, :count], None if energy is None else np.asarray(energy)[:, :count]
