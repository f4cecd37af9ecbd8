"""The time of every layer under every execution on one accelerator."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from dse.model.host_time import add_waits
from dse.model.rates import METADATA_BYTES, inverse_rates
from dse.model.roofline import Combination, execution_times, fastest, resource_times
from dse.model.terms import LayerTerms
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ResourceOverlap


class LayerTimes(NamedTuple):
    """Times of one instance of each layer [s]; `by_execution` is infinite where the execution is not legal. Sample 0 is the best estimate
    of fitted kernels, the only sample without them. `power_limited` says where a power limit sets the time, if one does."""

    by_resource: Float[np.ndarray, "resource sample layer execution"]
    by_execution: Float[np.ndarray, "sample layer execution"]
    power_limited: Bool[np.ndarray, "layer execution"] | None = None


def layer_times(terms: LayerTerms, inverse_rates: Float[np.ndarray, "execution term"], overlap: ResourceOverlap) -> LayerTimes:
    """The times of all samples at the inverse rates of one accelerator; resources are the unit, its decoder, then the memories."""
    combination = Combination(METADATA_BYTES, overlap)
    work = np.moveaxis(terms.slowed_work, (2, 3), (0, 1))  # [execution, term, sample, layer]
    overhead = None if terms.overhead is None else np.moveaxis(terms.overhead, 2, 0)
    with jax.enable_x64(True):
        resources = [resource_times(amounts, rates, METADATA_BYTES) for amounts, rates in zip(work, inverse_rates, strict=True)]
        times = execution_times(work, terms.legal.T, overhead, inverse_rates, combination)
    return LayerTimes(np.moveaxis(np.array(resources), 0, -1), np.stack(times, axis=-1))


def latency_samples(terms: LayerTerms, accelerator: Accelerator, overlap: ResourceOverlap) -> Float[np.ndarray, "sample layer"]:
    """Latency of all repeats of each layer [s], with its share of the waits for the host; sample 0 is the best estimate of fitted kernels,
    the only sample without them."""
    times = layer_times(terms, inverse_rates(terms.executions, accelerator), overlap)
    return add_waits(fastest_times(times) * terms.count, terms.host)


def fastest_times(times: LayerTimes) -> Float[np.ndarray, "sample layer"]:
    """Time of the fastest execution of each layer [s]."""
    with jax.enable_x64(True):
        return np.asarray(fastest(list(np.moveaxis(times.by_execution, -1, 0))))
