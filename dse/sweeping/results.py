"""Results as a labelled dataset: dims, coordinates, units and where everything came from."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from dse.model.efficiency.interval import QUANTILES
from dse.model.terms import LAUNCH, Case
from dse.sweeping import cost, provenance
from dse.sweeping.job import Job
from dse.sweeping.plan import Plan

ATTRS = {
    "latency": {"units": "s", "long_name": "network latency"},
    "dense_latency": {"units": "s", "long_name": "latency of the dense network on the same design"},
    "speedup": {"units": "1", "long_name": "dense latency / latency"},
    "latency_bound": {"units": "s", "long_name": "latency that no schedule of the on-chip memory can beat"},
    "dense_latency_bound": {"units": "s", "long_name": "the same, of the dense network on the same design"},
    "speedup_low": {"units": "1", "long_name": "least possible speedup: dense latency that no schedule can beat / latency"},
    "speedup_high": {"units": "1", "long_name": "most possible speedup: dense latency / latency that no schedule can beat"},
    "latency_low": {"units": "s", "long_name": "5% of the latencies that the measured kernels allow"},
    "latency_high": {"units": "s", "long_name": "95% of them"},
    "dense_latency_low": {"units": "s", "long_name": "5% of the dense latencies that the measured kernels allow"},
    "dense_latency_high": {"units": "s", "long_name": "95% of them"},
    "bound_share": {"units": "1", "long_name": "share of the latency that the resource sets"},
    "execution_share": {"units": "1", "long_name": "share of the latency spent in the execution"},
    "fits": {
        "long_name": "weights (stored as small as a legal execution allows), key-value cache and the largest working set of activations "
        "at this batch fit the outermost memory together (true if its size is not given)"
    },
    "area": {"units": "m^2", "long_name": "silicon of the design"},
    "power": {"units": "W", "long_name": "power of the design at full load"},
    "energy": {"units": "J", "long_name": "energy of one run of the network, leakage included"},
    "edp": {"units": "J s", "long_name": "energy x latency"},
    "performance_per_area": {"units": "1/(s m^2)", "long_name": "samples per second (batch / latency) / area"},
    "performance_per_watt": {"units": "1/J", "long_name": "samples per second (batch / latency) / power at full load"},
    "average_power": {"units": "W", "long_name": "energy / latency; above the power of the design, the latency is not attainable"},
    "power_limited_latency": {
        "units": "s",
        "long_name": "latency at which the average power is at most the power of the design: no less than the latency, infinite where "
        "leakage alone takes more",
    },
    "sparsity": {"units": "1", "long_name": "1 - nnz / size over the prunable weights, as realised"},
    "nominal_sparsity": {"units": "1", "long_name": "sparsity that the source states"},
    "accuracy": {"long_name": "metric of the pruned network"},
    "metric": {"long_name": "what the accuracy measures"},
    "dense_accuracy": {"long_name": "metric of the dense network of the same source"},
    "densities_from": {"long_name": "where the layer densities are from, unless they were counted"},
}


SAMPLED = {
    "speedup_low": {"units": "1", "long_name": "5% of the speedups that the measured kernels allow"},
    "speedup_high": {"units": "1", "long_name": "95% of them"},
}
EXTRA_DIMS = {"bound_share": ("resource",), "execution_share": ("execution",)}


Kernels = Mapping[str, Mapping[str, Sequence[str]]]  # measured ones, by accelerator and execution


class Arrays:
    """The result arrays of a sweep, filled job by job."""

    def __init__(self, plan: Plan, resources: Sequence[str], executions: Sequence[str], decoders: bool, kernels: Kernels):
        self.plan, self.resources, self.executions, self.decoders, self.kernels = plan, resources, executions, decoders, kernels
        self.dims = plan.dims
        wanted = plan.spec.store.variables
        self.breakdown = plan.needs_breakdown
        shape = tuple(self.dims.values())
        precision = plan.spec.store.dtype
        self.arrays = {"latency": np.zeros(shape, precision)}
        if plan.needs_dense_latency:
            self.arrays["dense_latency"] = np.zeros(shape, precision)
        if "bound_share" in wanted:
            self.arrays["bound_share"] = np.zeros((*shape, len(resources)), precision)
        if "execution_share" in wanted:
            self.arrays["execution_share"] = np.zeros((*shape, len(executions)), precision)
        if "fits" in wanted:
            self.arrays["fits"] = np.ones(shape, bool)
        if plan.has_lower_bound:
            self.arrays |= {f"{name}_bound": np.zeros(shape, precision) for name in ("latency", "dense_latency") if name in self.arrays}
        if plan.has_intervals:
            times = [*(["latency", "dense_latency", "speedup"] if plan.needs_dense_latency else ["latency"])]
            self.arrays |= {f"{name}_{end}": np.full(shape, np.nan, precision) for name in times for end in QUANTILES}
        self.dense_draws: dict[tuple[Any, ...], np.ndarray] = {}
        self.cost = cost.arrays(plan)

    def put(self, job: Job, spent: np.ndarray) -> None:
        """Take in the spent time of one job: [*rates], or [execution, resource, *rates]."""
        latency = spent.sum(axis=(0, 1)) if self.breakdown else spent
        for variant in job.variants:
            at = tuple(self._index(dim, job, variant) for dim in self.dims)
            self.arrays["dense_latency" if job.baseline else "latency"][at] = self._expanded(latency)
            if not job.baseline:
                self._put_shares(at, job.case, spent, latency)
                self._put_fits(at, job)

    def put_bound(self, job: Job, latency: np.ndarray) -> None:
        """Take in the time of one job that no schedule can beat, [*rates]."""
        for variant in job.variants:
            at = tuple(self._index(dim, job, variant) for dim in self.dims)
            self.arrays["dense_latency_bound" if job.baseline else "latency_bound"][at] = self._expanded(latency)

    def put_draws(self, job: Job, latencies: np.ndarray) -> None:
        """Take in the latencies of one job by other parameters that the measurements allow, [draw, *rates]."""
        for variant in job.variants:
            key = (*sorted(job.place.items()), variant)
            if job.baseline:
                self.dense_draws[key] = latencies
            self._put_quantiles("dense_latency" if job.baseline else "latency", job, variant, latencies)
            if not job.baseline and self.plan.needs_dense_latency:
                self._put_quantiles("speedup", job, variant, self.dense_draws.pop(key) / latencies)

    def _put_quantiles(self, name: str, job: Job, variant: int, drawn: np.ndarray) -> None:
        at = tuple(self._index(dim, job, variant) for dim in self.dims)
        ordered = np.sort(drawn, axis=0)  # ten times as fast as numpy.quantile
        for end, share in QUANTILES.items():
            below, part = divmod(share * (len(drawn) - 1), 1)
            low, high = ordered[int(below)], ordered[min(int(below) + 1, len(drawn) - 1)]
            self.arrays[f"{name}_{end}"][at] = self._expanded(low + part * (high - low))

    def put_energy(self, job: Job, dynamic: np.ndarray) -> None:
        """Take in the energy that the work of one job takes, after its time: leakage goes on as long as it lasts."""
        for variant in job.variants:
            at = tuple(self._index(dim, job, variant) for dim in self.dims)
            self.cost["energy"][at] = dynamic + cost.static(self.plan, job) * self.arrays["latency"][at]

    def _index(self, dim: str, job: Job, variant: int) -> Any:
        return variant if dim == "variant" else job.place.get(dim, slice(None))

    def _put_shares(self, at: tuple[Any, ...], case: Case, spent: np.ndarray, latency: np.ndarray) -> None:
        if not self.breakdown:
            return
        for execution, shares in zip(case.executions, spent / latency, strict=False):  # `spent` is padded
            named = [*([] if case.fixed is None else [LAUNCH]), *execution.resources(self.decoders)]
            for resource, share in zip(named, shares, strict=False):  # as for a memory that others have
                if resource in self.resources:  # not a decoder without a rate, which sets no time
                    self._add("bound_share", (*at, self.resources.index(resource)), share)
            self._add("execution_share", (*at, self.executions.index(execution.name)), shares.sum(axis=0))

    def _add(self, name: str, at: tuple[Any, ...], share: np.ndarray) -> None:
        if name in self.arrays:
            self.arrays[name][at] += self._expanded(share)

    def _put_fits(self, at: tuple[Any, ...], job: Job) -> None:
        if "fits" in self.arrays:
            self.arrays["fits"][at] = self._expanded_capacity(job) >= job.case.footprint

    def _expanded(self, over_rates: np.ndarray) -> np.ndarray:
        """Rate axes in place, an axis of length 1 for each idle one."""
        axes = [axis for axis in self.plan.axes if not axis.is_outer_loop]
        return over_rates.reshape([len(axis) if axis.role == "rate" else 1 for axis in axes])

    def _expanded_capacity(self, job: Job) -> np.ndarray:
        path = f"memory.{job.accelerator.outermost}.capacity"
        axes = [axis for axis in self.plan.axes if not axis.is_outer_loop]
        for position, axis in enumerate(axes):
            if axis.path == path:
                return axis.values.reshape([-1 if n == position else 1 for n in range(len(axes))])
        capacity = job.accelerator.value(path)
        return np.array(np.inf if capacity is None else capacity)


def every(plan: Plan, arrays: Arrays) -> xr.Dataset:
    """All results that were evaluated, without attributes."""
    dims = tuple(plan.dims)
    variables = {name: ((*dims, *EXTRA_DIMS.get(name, ())), array) for name, array in arrays.arrays.items()}
    found = labels(plan, arrays.resources, arrays.executions, arrays.kernels).assign(variables)
    if "speedup" in plan.spec.store.variables:
        found = with_speedup(found)
    return cost.with_variables(found, plan, arrays.cost)


def described(found: xr.Dataset, plan: Plan) -> xr.Dataset:
    """With the attributes of each variable, which say of every accelerator of the plan what they rest on."""
    for name in found.data_vars:
        found[name].attrs = ATTRS[str(name)] | cost.basis(str(name), plan) | (SAMPLED.get(str(name), {}) if plan.has_intervals else {})
    return found


def with_speedup(found: xr.Dataset) -> xr.Dataset:
    """With the speedup that its latencies make, and how far that may be from what is attainable."""
    made = {"speedup": found.dense_latency / found.latency}
    if "latency_bound" in found:
        made["speedup_low"] = found.dense_latency_bound / found.latency
        made["speedup_high"] = found.dense_latency / found.latency_bound
    return found.assign({name: variable.assign_attrs(ATTRS[name]) for name, variable in made.items()})


def labels(plan: Plan, resources: Sequence[str], executions: Sequence[str], kernels: Kernels) -> xr.Dataset:
    """A dataset without its variables."""
    found = xr.Dataset(coords=_coordinates(plan, resources, executions), attrs=provenance.attributes(plan))
    found.attrs |= {"kernels": json.dumps(kernels)} if kernels else {}
    for name in found.coords.keys() & ATTRS.keys():
        found[name].attrs = dict(ATTRS[str(name)])
    return found


def _coordinates(plan: Plan, resources: Sequence[str], executions: Sequence[str]) -> dict[str, Any]:
    coords: dict[str, Any] = {"accelerator": _text(accelerator.name for accelerator in plan.accelerators)}
    for axis in plan.axes:
        values = axis.values.astype(object) if axis.values.dtype.kind == "U" else axis.values
        coords[axis.path] = (axis.path, values, {"units": axis.unit or "1"} if axis.values.dtype.kind == "f" else {})
    coords["batch"], coords["variant"] = np.array(plan.spec.batch), np.arange(len(plan.variants))
    coords["dtype"] = _text(dtype.label for dtype in plan.spec.dtype)
    coords["resource"], coords["execution"] = _text(resources), _text(executions)
    columns = {
        "workload": _text(v.workload for v in plan.variants),
        "method": _text(v.method for v in plan.variants),
        "pattern": _text(v.pattern for v in plan.variants),
        "sparsity": np.array([v.sparsity for v in plan.variants]),
        "nominal_sparsity": np.array([v.nominal_sparsity for v in plan.variants]),
        "accuracy": np.array([v.accuracy for v in plan.variants]),
        "dense_accuracy": np.array([v.dense_accuracy for v in plan.variants]),
        "accuracy_kind": _text(v.accuracy_kind for v in plan.variants),
        "metric": _text(v.metric for v in plan.variants),
        "densities_from": _text(v.densities_from for v in plan.variants),
    }
    return coords | {name: ("variant", column) for name, column in columns.items()}


def _text(values: Any) -> np.ndarray:
    return np.array([str(value) for value in values], object)
