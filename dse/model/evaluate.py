"""`dse.evaluate`: one network on one accelerator, layer by layer."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import xarray as xr

from dse.base.catalog import Reference
from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError, ProblemCollector
from dse.base.strict_model import StrictModel, validate_mapping
from dse.model.efficiency.efficiency_file import available_kernels
from dse.model.layer_results import layer_results
from dse.model.layer_times import check_same_layers, latency_samples, speedup_over_baseline
from dse.model.network_terms import efficiency_of, network_terms
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions
from dse.schema.references import load_accelerator, load_workload
from dse.schema.sweep import Batch
from dse.workload import Variant, Workload


class _Arguments(StrictModel):
    batch: Batch
    dtype: OperandDtypes
    power_limited: bool
    options: ModelOptions


def evaluate(
    accelerator: Accelerator | str | Path | Mapping[str, object],
    variant: Variant | Workload | str | Path | Mapping[str, object],
    batch: int = 1,
    dtype: str | Mapping[str, object] | OperandDtypes = "fp16",
    power_limited: bool = False,
    baseline: Variant | Workload | str | Path | Mapping[str, object] | None = None,
    **options: object,
) -> xr.Dataset:
    """Evaluate one network on one accelerator, layer by layer.

    Args:
        accelerator: an accelerator, a name of the catalogue, the path of a YAML file, or a mapping with the keys of such a file.
        variant: a variant of a workload. A workload, or its name, path or description, is evaluated dense.
        batch: number of samples that are evaluated together.
        dtype: of weights, activations and outputs, as in `"fp16"`, or one for each, as in `"int8 outputs=int32"`.
        power_limited: whether each layer takes at least the time in which it stays below the power of the accelerator (`cost.power`);
            `bound` is then `power` where that sets the time.
        baseline: a variant with the same layers (a workload: its dense one), over which the speedup of each layer is computed.
        options: those of a specification's `model`, as in `fidelity="capacity"`.

    Returns:
        A dataset with the dim `layer`, in SI units. Every variable counts all repeats of its layer, so that sums over `layer` are those of
        the network. Variables: `latency` [s], `flops` [FLOP], `bytes` [B], `bound` (the resource that sets the latency), `unit` and
        `execution` that run the layer, `rivals` (the other executions, with their latency relative to the chosen one), and others.
        An accelerator that states its process adds `energy` [J] and `power_limited_latency` [s]: the latency at which the layer takes at
        most the power of the design.
        Fidelity `capacity` adds `latency_bound` [s] and `bytes_bound` [B], which no schedule can beat, and `traffic` [B] with the dim
        `memory`. Fidelity `calibrated` adds `latency_low` and `latency_high` [s], the ends of a 90% interval, and the `kernel`.
        A `baseline` adds `baseline_latency` [s] and `speedup`; with fidelity `calibrated` also `speedup_low`, `speedup_high` and
        `faster_probability`, the probability that a layer is faster than in the baseline.

    Raises:
        InputError: a description or an argument is invalid; lists every problem.

    Examples:
        >>> import dse
        >>> resnet = dse.load_workload("resnet50")
        >>> layers = dse.evaluate("a100-sxm4-80gb", resnet.variant("magnitude_pruning", sparsity=0.9), batch=32, dtype="fp16")
        >>> dense = dse.evaluate("a100-sxm4-80gb", resnet, batch=32, dtype="fp16")
        >>> round(float(dense.latency.sum() / layers.latency.sum()), 2)  # speedup
        1.4
        >>> layers.sizes["layer"]
        54
    """
    arguments = {"batch": batch, "dtype": dtype, "power_limited": power_limited, "options": options}
    device, chosen, base, checked = _read_inputs(accelerator, variant, variant if baseline is None else baseline, arguments)
    efficiency = efficiency_of(checked.options, available_kernels(device, checked.options))
    setting = checked.batch, checked.dtype, checked.options, efficiency
    terms = network_terms(device, chosen, *setting)
    results = layer_results(terms, device, chosen, checked.dtype, checked.options, checked.batch, checked.power_limited)
    if baseline is None:
        return results
    check_same_layers(chosen.layers, base.layers)
    both = terms, network_terms(device, base, *setting)
    samples = (latency_samples(each, device, checked.options, checked.power_limited) for each in both)
    return results.assign(speedup_over_baseline(*samples))


def _read_inputs(
    accelerator: Reference | Accelerator, variant: object, baseline: object, arguments: Mapping[str, object]
) -> tuple[Accelerator, Variant, Variant, _Arguments]:
    """Load what is given by name or path, and check the arguments; raises InputError with every problem."""
    readers = {
        "accelerator": partial(load_accelerator, accelerator),
        "variant": partial(_read_variant, variant),
        "baseline": partial(_read_variant, baseline),
        "": partial(validate_mapping, _Arguments, arguments),
    }
    problems, values = ProblemCollector(), list[Any]()
    for path, read in readers.items():
        with problems.collect(key=path):
            values.append(read())
    problems.raise_if_any()
    device, chosen, base, checked = values
    return device, chosen, base, checked


def _read_variant(given: object) -> Variant:
    if isinstance(given, Workload | str | Path | Mapping):
        return load_workload(given).dense
    if not isinstance(given, Variant):
        message = f"'{type(given).__name__}' is not the type of a variant"
        raise InputError(message, "give one of a workload, as 'load_workload(...).variant(...)', or a workload")
    return given
