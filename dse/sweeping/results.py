"""The results of a sweep as an xarray dataset: arrays that are filled job by job, coordinates, and attributes."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy.typing import DTypeLike

from dse.model.cost.design import Design
from dse.model.efficiency.interval import QUANTILES
from dse.model.efficiency.probability import probability_above_one
from dse.model.host_time import HOST_RESOURCE
from dse.model.terms import OVERHEAD_RESOURCE
from dse.schema.accelerator import Accelerator
from dse.schema.stored_results import ATTRIBUTES, SAMPLED_ATTRIBUTES
from dse.sweeping import cost, serving
from dse.sweeping.accuracy_losses import ASSUMED_DROP
from dse.sweeping.compile import CompiledSweep
from dse.sweeping.job import Job
from dse.sweeping.job_evaluator import DenseSamples
from dse.sweeping.plan import Plan
from dse.sweeping.store import with_speedup

Index = tuple[int | slice, ...]

VARIANT_COORDINATES = (
    *("workload", "method", "pattern", "sparsity", "nominal_sparsity"),
    *("accuracy", "accuracy_low", "accuracy_high", "dense_accuracy", "accuracy_kind", "metric", "densities_from"),
)


class ResultArrays:
    """The result arrays of a sweep, which jobs fill one after the other."""

    def __init__(self, compiled: CompiledSweep):
        plan = compiled.plan
        self.compiled, self.plan, self.dims = compiled, plan, plan.dims
        self.resources, self.executions, self.has_decoders = compiled.resources, compiled.executions, compiled.shapes.has_decoders
        self.arrays = _allocate_arrays(plan, len(self.resources), len(self.executions))
        self.cost_arrays = cost.allocate_arrays(plan)
        self._dense_samples: dict[tuple[object, ...], DenseSamples] = {}

    def add_latency(self, job: Job, latency: Float[np.ndarray, "..."]) -> None:
        """Store the latency of one job [*rates]."""
        for index in self._indices(job):
            self.arrays["dense_latency" if job.is_dense_baseline else "latency"][index] = self._expand(latency)
            if not job.is_dense_baseline:
                self._add_footprint(job, index)

    def _add_footprint(self, job: Job, index: Index) -> None:
        """Store what one variant of a job occupies in the outermost memory, and whether and how often it fits."""
        footprint, capacity = job.terms.footprint, self._outermost_capacity(job)
        if "fits" in self.arrays:
            self.arrays["fits"][index] = capacity >= footprint.total
        if "largest_batch" in self.arrays:
            self.arrays["largest_batch"][index] = footprint.largest_batch(capacity)
        if "footprint" in self.arrays:
            position = dict(zip(self.dims, index, strict=True))
            self.arrays["footprint"][tuple(position[dim] for dim in self.plan.dims_of("footprint"))] = footprint.total

    def add_shares(self, job: Job, breakdown: Float[np.ndarray, "execution resource ..."], latency: Float[np.ndarray, "..."]) -> None:
        """Store the shares of the latency of one job by resource and by execution, from its breakdown [s].

        What the breakdown leaves of the latency, the host takes; executions share the time of the device.
        """
        if job.is_dense_baseline:
            return
        of_device = breakdown.sum(axis=(0, 1))
        shares, device_share = breakdown / of_device, of_device / latency
        overhead = [] if job.terms.overhead is None else [OVERHEAD_RESOURCE]
        index, *others = self._indices(job)
        for execution, by_resource in zip(job.terms.executions, shares, strict=False):  # the breakdown is padded
            for resource, share in zip([*overhead, *execution.resources(self.has_decoders)], by_resource, strict=False):
                if resource in self.resources:  # a decoder without a rate sets no time
                    self._add_share("bound_share", (*index, self.resources.index(resource)), share * device_share)
            self._add_share("execution_share", (*index, self.executions.index(execution.name)), by_resource.sum(axis=0))
        if job.terms.host is not None:
            self._add_share("bound_share", (*index, self.resources.index(HOST_RESOURCE)), 1 - device_share)
        for name in {"bound_share", "execution_share"} & self.arrays.keys():
            for other in others:
                self.arrays[name][other] = self.arrays[name][index]

    def add_lower_bound(self, job: Job, latency: Float[np.ndarray, "..."]) -> None:
        """Store the lower bound of the latency of one job [*rates]."""
        for index in self._indices(job):
            self.arrays["dense_latency_bound" if job.is_dense_baseline else "latency_bound"][index] = self._expand(latency)

    def add_intervals(self, job: Job, evaluate: Callable[[DenseSamples | None], tuple[np.ndarray, DenseSamples]]) -> None:
        """Store the intervals of one job whose latency is stored. The dense baseline of a variant comes before it.

        `evaluate` takes the samples of the dense network and returns the quantiles of the latency, then those of the speedup
        [quantile, *rates]. Without them it returns the quantiles of the latency, and its samples.
        """
        keys = [(*sorted(job.indices.items()), variant) for variant in job.variants]
        if job.is_dense_baseline:
            latency, samples = evaluate(None)
            self._dense_samples |= dict.fromkeys(keys, samples)
            self._store_quantiles("dense_latency", job, latency)
            return
        dense, *_ = [self._dense_samples.pop(key, None) for key in keys]
        quantiles, _ = evaluate(dense)
        self._store_quantiles("latency", job, quantiles[: len(QUANTILES)])
        if dense is not None:
            speedup = quantiles[len(QUANTILES) :]
            is_pruned = self.plan.variants[job.variants[0]].is_pruned.any()  # the dense network over itself is exactly one
            self._store_quantiles("speedup", job, speedup if is_pruned else np.ones_like(speedup))
            self._store_probability(job)

    def add_energy(self, job: Job, dynamic: Float[np.ndarray, "..."]) -> None:
        """Store the energy of one job whose latency is stored, from the `dynamic` energy of its work [J]."""
        first, *_ = indices = self._indices(job)
        energy = cost.total_energy(self.plan, job, dynamic, self.arrays["latency"][first])
        for index in indices:
            self.cost_arrays["energy"][index] = energy

    def to_dataset(self) -> xr.Dataset:
        """All results as variables without attributes, with what the specification derives from them."""
        variables = {name: (self.plan.dims_of(name), array) for name, array in self.arrays.items()}
        costs = {name: (tuple(self.plan.dims)[: array.ndim], array) for name, array in self.cost_arrays.items()}
        dataset = label_dataset(self.compiled, variables | costs)
        if "speedup" in self.plan.spec.store.variables:
            dataset = with_speedup(dataset)
        dataset = serving.add_variables(dataset, self.plan)
        return cost.add_variables(dataset, self.plan)

    def _indices(self, job: Job) -> list[Index]:
        """Indices of a job's results in the dataset, one for each variant that it belongs to."""
        return [tuple(variant if dim == "variant" else job.indices.get(dim, slice(None)) for dim in self.dims) for variant in job.variants]

    def _store_probability(self, job: Job) -> None:
        """Store how probable it is that a pruned network is faster than the dense one, while what it follows from is in the cache."""
        first, *_ = indices = self._indices(job)
        speedup = self.arrays["dense_latency"][first] / self.arrays["latency"][first]
        probability = probability_above_one(speedup, *(self.arrays[f"speedup_{end}"][first] for end in QUANTILES))
        for index in indices:
            self.arrays["faster_probability"][index] = probability

    def _store_quantiles(self, name: str, job: Job, quantiles: Float[np.ndarray, "quantile ..."]) -> None:
        for index in self._indices(job):
            for end, values in zip(QUANTILES, quantiles, strict=True):
                self.arrays[f"{name}_{end}"][index] = self._expand(values)

    def _add_share(self, name: str, index: Index, share: Float[np.ndarray, "..."]) -> None:
        if name in self.arrays:
            self.arrays[name][index] += self._expand(share)

    def _expand(self, over_rates: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Insert an axis of length 1 for each inner axis that no rate depends on."""
        return over_rates.reshape([len(axis) if axis.role == "rate" else 1 for axis in self.plan.inner_axes])

    def _outermost_capacity(self, job: Job) -> Float[np.ndarray, "..."]:
        """Capacity of the outermost memory [B] over the inner axes; infinite where it is not given."""
        path = f"memory.{job.accelerator.outermost}.capacity"
        axes = self.plan.inner_axes
        shapes = [[-1 if other is axis else 1 for other in axes] for axis in axes]
        values = {axis.path: axis.values.reshape(shape) for axis, shape in zip(axes, shapes, strict=True)}
        capacity = Design(job.accelerator, values).value(path)
        return np.asarray(np.inf if capacity is None else capacity)


def _allocate_arrays(plan: Plan, resources: int, executions: int) -> dict[str, np.ndarray]:
    """Arrays for the results that jobs compute; `resources`, `executions`: sizes of the extra dimensions."""
    dtype, stored = plan.spec.store.dtype, plan.spec.store.variables
    latencies = ["latency", *(["dense_latency"] if plan.needs_dense_latency else [])]
    arrays = {name: _zeros(plan, dtype) for name in latencies}
    for name, size in (("bound_share", resources), ("execution_share", executions)):
        if name in stored:
            arrays[name] = _zeros(plan, dtype, size)
    if "fits" in stored:
        arrays["fits"] = _zeros(plan, bool)
    if "largest_batch" in stored:
        arrays["largest_batch"] = _zeros(plan, dtype)
    if "footprint" in stored:
        arrays["footprint"] = np.zeros([plan.dims[dim] for dim in plan.dims_of("footprint")], dtype)
    if plan.has_lower_bound:
        arrays |= {f"{name}_bound": _zeros(plan, dtype) for name in latencies}
    if plan.has_intervals:
        names = [*latencies, *(["speedup"] if plan.needs_dense_latency else [])]
        arrays |= {f"{name}_{end}": _zeros(plan, dtype) for name in names for end in QUANTILES}
        arrays |= {"faster_probability": _zeros(plan, dtype)} if plan.needs_dense_latency else {}
    return arrays


def _zeros(plan: Plan, dtype: DTypeLike, *further_sizes: int) -> np.ndarray:
    """Zeros over the dimensions of the results, and further ones.

    The inner axes come last in memory, so that each job fills a contiguous part, and not one number in each line of the cache.
    """
    inner, sizes = {axis.path for axis in plan.inner_axes}, [*plan.dims.values(), *further_sizes]
    is_inner = [dim in inner for dim in plan.dims] + [False] * len(further_sizes)
    in_memory = np.argsort(is_inner, kind="stable")
    return np.zeros([sizes[dim] for dim in in_memory], dtype).transpose(np.argsort(in_memory))


def set_attributes(dataset: xr.Dataset, plan: Plan) -> xr.Dataset:
    """Set the attributes of each variable; they cover every accelerator of the plan, also if the dataset is a chunk of it."""
    for name, variable in dataset.data_vars.items():
        sampled = SAMPLED_ATTRIBUTES.get(str(name), {}) if plan.has_intervals else {}
        variable.attrs = ATTRIBUTES[str(name)] | cost.source_attributes(str(name), plan) | sampled
    if "footprint" in dataset:
        dataset.footprint.attrs["capacity"] = json.dumps({one.name: _described_capacity(one) for one in plan.accelerators})
    return dataset


def _described_capacity(accelerator: Accelerator) -> tuple[str, float | None]:
    """The path of the capacity of the outermost memory, and its value [B]; None where it is not limited."""
    path = f"memory.{accelerator.outermost}.capacity"
    return path, accelerator.value(path)


def label_dataset(compiled: CompiledSweep, variables: Mapping[str, tuple[Sequence[str], np.ndarray]] | None = None) -> xr.Dataset:
    """A dataset of the coordinates and the provenance of a sweep, with some variables or none."""
    dataset = xr.Dataset(variables, _coordinates(compiled.plan, compiled.resources, compiled.executions), compiled.attributes)
    for name in dataset.coords.keys() & ATTRIBUTES.keys():
        dataset[name].attrs = dict(ATTRIBUTES[str(name)])
    return dataset


def _coordinates(plan: Plan, resources: Sequence[str], executions: Sequence[str]) -> dict[str, object]:
    coords: dict[str, object] = {"accelerator": _to_text(accelerator.name for accelerator in plan.accelerators)}
    for axis in plan.axes:
        values = axis.values.astype(object) if axis.values.dtype.kind == "U" else axis.values
        coords[axis.path] = (axis.path, values, {"units": axis.unit or "1"} if axis.values.dtype.kind == "f" else {})
    coords["batch"], coords["variant"] = np.array(plan.spec.batch), np.arange(len(plan.variants))
    coords["dtype"] = _to_text(dtype.label for dtype in plan.spec.dtype)
    coords["resource"], coords["execution"] = _to_text(resources), _to_text(executions)
    texts = ("workload", "method", "pattern", "accuracy_kind", "metric", "densities_from")
    columns = {name: [getattr(variant, name) for variant in plan.variants] for name in VARIANT_COORDINATES}
    arrays = {name: _to_text(column) if name in texts else np.array(column) for name, column in columns.items()}
    if any(variant.assumed_drop for variant in plan.variants):
        arrays[ASSUMED_DROP] = np.array([variant.assumed_points for variant in plan.variants])
    return coords | {name: ("variant", array) for name, array in arrays.items()}


def _to_text(values: Iterable[object]) -> np.ndarray:
    """Labels as an object array: netCDF and Zarr warn about other arrays of text."""
    return np.array([str(value) for value in values], object)
