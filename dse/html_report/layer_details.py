"""What the page shows of single designs: their layers, the roofs of the device, and what 10% more or less of each number changes."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import xarray as xr

from dse.base.display_units import format_quantity
from dse.base.dtype import OperandDtypes
from dse.base.units import Count, Efficiency, Gain, Quantity, Width
from dse.explaining.explain import explain_ideal
from dse.explaining.side import Side
from dse.html_report.display import PageContents, round_numbers
from dse.model.evaluate import evaluate
from dse.model.executions import list_executions
from dse.model.memory_levels import memory_levels
from dse.model.rates import rate_paths
from dse.plot import roofline
from dse.plot.selection import Table
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import Fidelity, ModelOptions
from dse.sweeping.axis import Axis
from dse.sweeping.plan import Plan
from dse.workload import Variant

STEP = 0.1  # relative change of each number in the tornado
MIN_CHANGE = 1e-6  # relative change of the latency from which a number is listed
MAX_LAYER_ROWS = 200  # in the page; of more, the longest


@dataclass(frozen=True, eq=False)
class NetworkOnDesign:
    """One variant of a network on one design."""

    accelerator: Accelerator
    variant: Variant
    dense: Variant
    batch: int
    dtype: OperandDtypes
    options: ModelOptions

    @property
    def side(self) -> Side:
        """The variant on the design, as a side of an explanation."""
        return Side(self.accelerator, self.variant, self.batch, self.dtype, self.options)

    def layers(self, variant: Variant, accelerator: Accelerator | None = None) -> Table:
        """One row for each layer of a variant (columns as `dse.evaluate`), on this or another accelerator."""
        device = accelerator or self.accelerator
        results = evaluate(device, variant, self.batch, self.dtype.model_dump(), **self.options.model_dump())
        return results.drop_dims("memory", errors="ignore").to_dataframe().reset_index()


def network_on_design(plan: Plan, point: xr.Dataset) -> NetworkOnDesign:
    """The variant and the design of a point of a sweep."""
    accelerator = next(each for each in plan.accelerators if each.name == str(point["accelerator"].item()))
    varied = accelerator.replace({axis.path: axis.yaml_values[_axis_index(axis, point[axis.path].item())] for axis in plan.axes})
    dtype = next(dtype for dtype in plan.spec.dtype if dtype.label == str(point["dtype"].item()))
    variant = plan.variants[int(point["variant"])]
    return NetworkOnDesign(varied, variant, plan.dense_variants[variant.workload], int(point["batch"]), dtype, plan.spec.model)


def _axis_index(axis: Axis, value: float | str) -> int:
    if axis.values.dtype.kind in "if":
        return int(np.abs(axis.values - value).argmin())
    return [str(label) for label in axis.values].index(str(value))


def describe_layers(network: NetworkOnDesign, with_tornado: bool) -> PageContents:
    """Layers of a network, dense and pruned, with the roofs of its device, and the sensitivities of its latency."""
    variants = [network.dense] if network.variant.method == "dense" else [network.dense, network.variant]
    tables = [network.layers(variant) for variant in variants]
    numbers, names = group_equal_layers(tables)
    return {
        "network": network.variant.workload,
        "states": [_describe_state(network, *each, numbers, names) for each in zip(variants, tables, strict=True)],
        "bandwidth": roofline.outermost_bandwidth(network.accelerator),
        "memory": network.accelerator.outermost,
        "causes": _explain_speedup(network),
        "tornado": _vary_numbers(network) if with_tornado else [],
        "step": STEP,
    }


def _explain_speedup(network: NetworkOnDesign) -> PageContents | None:
    """Why a pruned network is not as fast as its pattern allows: a sentence, and parts that add up; None for a dense network."""
    variant = network.variant
    if not (variant.density[variant.layers.has_weights] < 1).any():
        return None
    why = explain_ideal(network.side)
    return {"sentence": why.sentence, "from": why.value_a, "to": why.value_b, "parts": [[part.label, part.value] for part in why.parts]}


def group_equal_layers(tables: list[Table]) -> tuple[np.ndarray, list[str]]:
    """Number the layers so that those with equal results in every table share one; returns it [layer], and a name for each number.

    The groups with the longest time come first.
    """
    results = [
        table[["bound", "execution"]].assign(time=_digits(table.latency / table["count"]), work=_digits(table.dense_flops))
        for table in tables
    ]
    keys = [tuple(itertools.chain(*rows)) for rows in zip(*(each.itertuples(index=False) for each in results), strict=True)]
    time: dict[object, float] = {}
    for key, seconds in zip(keys, np.sum([table.latency for table in tables], axis=0), strict=True):
        time[key] = time.get(key, 0.0) + seconds
    order = {key: number for number, key in enumerate(sorted(time, key=lambda key: -time[key]))}
    numbers = np.array([order[key] for key in keys])
    layers, counts = tables[0].layer.astype(str).to_numpy(), np.bincount(numbers)
    firsts = [layers[int(np.flatnonzero(numbers == number)[0])] for number in range(len(order))]
    return numbers, [name if count == 1 else f"{name} and {count - 1} equal" for name, count in zip(firsts, counts, strict=True)]


def _digits(values: Iterable[float]) -> list[str]:
    return [f"{value:.6g}" for value in values]


def _describe_state(network: NetworkOnDesign, variant: Variant, rows: Table, numbers: np.ndarray, names: list[str]) -> PageContents:
    roofs = roofline.list_roofs(network.accelerator, variant, rows, network.dtype, network.options.fidelity)
    sums = {name: (name, "sum") for name in ("count", "latency", "dense_flops", "bytes")}
    firsts = {name: (name, "first") for name in ("bound", "execution", "density")}
    table: Table = rows.groupby(numbers, sort=True).agg(**sums, **firsts).head(MAX_LAYER_ROWS)
    return {
        "label": "dense" if variant.method == "dense" else str(variant),
        "latency": float(rows.latency.sum()),
        "roofs": [{"name": f"{roof.unit} {roof.mode}", "flops_per_s": roof.flops_per_s, "used": roof.used} for roof in roofs],
        "layers": {"layer": names[: len(table)]}
        | {name: table[name].tolist() for name in ("bound", "execution")}
        | {name: round_numbers(table[name]) for name in ("count", "latency", "dense_flops", "bytes", "density")},
    }


def _vary_numbers(network: NetworkOnDesign) -> list[PageContents]:
    """Relative change of the latency when each number of the description is 10% lower and higher, the largest first."""
    accelerator, start, rows = network.accelerator, float(network.layers(network.variant).latency.sum()), []
    for path in decisive_paths(accelerator, network.dtype, network.options.fidelity):
        quantity = accelerator.at(path)
        varied = [accelerator.replace({path: changed_quantity(quantity, factor)}) for factor in (1 - STEP, 1 + STEP)]
        low, high = (float(network.layers(network.variant, device).latency.sum()) / start - 1 for device in varied)
        if max(abs(low), abs(high)) > MIN_CHANGE:
            value = format_quantity(quantity.value, type(quantity).unit or "1")
            rows.append({"path": path, "value": value, "kind": quantity.kind, "low": low, "high": high})
    return sorted(rows, key=lambda row: -max(abs(row["low"]), abs(row["high"])))


def decisive_paths(accelerator: Accelerator, dtype: OperandDtypes, fidelity: Fidelity) -> list[str]:
    """Numbers that the description states and that may change a latency: factors of rates and capacities, and all under 'calibrated'.

    In place of a number that follows from others by a link come those that it follows from.
    """
    stated = [
        path
        for path in accelerator.quantities()
        if not path.startswith("cost.") and ".energy" not in path and ".format." not in path and path not in accelerator.links.formulas
    ]
    if fidelity == "calibrated":
        return stated
    used = rate_paths(list_executions(accelerator, dtype, fidelity))
    used |= {level.reuse_capacity for level in memory_levels(accelerator, fidelity)}
    roots = {root for path in used if path is not None for root in accelerator.links.roots(path)}
    return [path for path in stated if path in roots]


def changed_quantity(quantity: Quantity, factor: float) -> str:
    """A quantity times a factor, within the values that it may have, as a description states it."""
    value = quantity.value * factor
    if isinstance(quantity, Count | Width):
        value = max(round(value), 1)
    elif isinstance(quantity, Efficiency):
        value = min(value, 1.0)
    elif isinstance(quantity, Gain):
        value = max(value, 1.0)
    return f"{value!r} {type(quantity).unit}".rstrip()
