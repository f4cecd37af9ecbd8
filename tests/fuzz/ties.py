"""Ties: sweeps of random chips on which executions often take equally long, against plain loops over the layers.

Units share their peaks, block families are nested, layers have no FLOPs, and rates are powers of a few numbers, so that exact ties are
planted everywhere. Whatever is stored, at either precision, kept whole or reduced: every number equals that of the loops, and shares sum
to the latency. Loops share the assembled work and rates of a single design with the product, and nothing of its evaluation; assembling
is compared with an oracle of its own (`tests/model/test_roofline.py`).
"""

import itertools
import json
import math
import warnings
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import xarray as xr

import dse
from dse.base.dtype import OperandDtypes
from dse.model.cost import energy as energies
from dse.model.cost import power
from dse.model.cost.design import Design
from dse.model.cost.energy import ActionCounts
from dse.model.efficiency.efficiency_file import available_kernels
from dse.model.network_terms import efficiency_of, network_terms
from dse.model.rates import METADATA_BYTES, TRAFFIC, inverse_rates
from dse.model.terms import LayerTerms
from dse.schema.accelerator import Accelerator, read_accelerator
from dse.schema.model_options import ModelOptions
from dse.sweeping import job
from dse.workload import Variant, tables

CASES = 6
ACCURACY = {"float64": 1e-12, "float32": 4e-5}  # float32: see `dse.model.roofline`, and 16 eps for each execution in a tie
EQUAL = 1e-13  # relative difference of the times in a tie
EVERYTHING = "[latency, dense_latency, bound_share, execution_share, energy]"
STORES = (None, "[latency]", "[latency, energy]", "[latency, bound_share]", EVERYTHING)


def case(random: Random, folder: Path) -> str:
    spec = _spec(random, folder)
    options = ModelOptions.model_validate(spec["model"])
    stored, precision = random.choice(STORES), random.choice(["float64", "float64", "float32"])
    store: dict[str, Any] = {"dtype": precision} | ({} if stored is None else {"variables": stored.strip("[]").split(", ")})
    large = 1 if random.random() < 0.3 else job.LARGE_GRID  # 1: as on large grids, which are split by the axes that layers depend on
    with patch.object(job, "LARGE_GRID", large):
        found = _sweep(folder, spec | {"store": store}).isel(accelerator=0, dtype=0)
    tolerance = ACCURACY[precision]
    expected = _expected(folder, spec, options, found)
    for name in ("latency", "dense_latency", "energy"):
        values = expected[name]
        if name in found:
            np.testing.assert_allclose(found[name].transpose(*values.dims), values, rtol=tolerance, atol=1e-30, err_msg=name)
    for name, dim in (("bound_share", "resource"), ("execution_share", "execution")):
        if name in found:
            shares = expected[name].sel({dim: found[dim].astype(str)}).transpose(*found[name].dims)
            np.testing.assert_allclose(found[name], shares, rtol=tolerance, atol=tolerance, err_msg=name)
            np.testing.assert_allclose(found[name].sum(dim), 1.0, rtol=10 * tolerance, err_msg=f"sum of {name}")
    _check_layers(folder, spec, options)
    if random.random() < 0.5:
        _check_reductions(random, folder, spec, expected["latency"])
    return f"{options.fidelity}, overlap {options.overlap}, {precision}"


def _spec(random: Random, folder: Path) -> dict[str, Any]:
    """A specification as a mapping; its chip and network are written below `folder`."""
    chip, axes = _chip(random)
    (folder / "chip.yaml").write_text(json.dumps(chip))
    _network(random, folder / "net")
    fidelity = random.choice(["sol", "sol", "r3", "capacity", "calibrated"])
    patterns = random.sample(["block:16x16", "block:32x32", "block:8x8", "unstructured"], 2)
    workload = {"methods": ["dense"], "patterns": [{"list": patterns, "densities": [0.5, 0.25]}, {"list": ["2:4"], "densities": "own"}]}
    chosen = dict(random.sample(sorted(axes.items()), random.randint(0, min(3, len(axes)))))
    return {
        "name": "ties",
        "accelerators": ["./chip.yaml"],
        "workloads": {"./net": workload},
        "batch": random.choice([[1], [1, 8]]),
        "dtype": "fp16",
        "model": {
            "fidelity": fidelity,
            "overlap": random.choice(["full", "none"]),
            "dense_fallback": random.random() < 0.5,
        },
    } | ({"axes": chosen} if chosen else {})


def _chip(random: Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """A chip of up to three units, many of their rates equal, and axes that keep them so."""
    names = random.sample(["alpha", "beta", "gamma", "delta"], random.randint(1, 3))
    units = {}
    for name in names:
        runs = {
            "sparse": {"pattern": "2:4", "gain": 2},
            "small": {"pattern": "block:8x8*"},
            "large": {"pattern": "block:16x16*"},
            "any": {"pattern": "unstructured", "efficiency": random.choice([0.5, 1.0])},
        }
        kept = random.sample(sorted(runs), random.randint(0, 4))
        units[name] = {"peak": {"fp16": f"{random.choice([50, 100, 100, 100])} TFLOP/s"}, "runs": {run: runs[run] for run in kept}}
    memory = {
        "dram": {"capacity": "80 GB", "bandwidth": f"{random.choice([1, 2])} TB/s"},
        "l2": {"capacity": random.choice(["1 MB", "64 MB"]), "bandwidth": "4 TB/s"},
    }
    axes: dict[str, Any] = {
        "memory.dram.bandwidth": ["0.5 TB/s", "1 TB/s", "2 TB/s", "3.7 TB/s"],
        "memory.l2.capacity": ["1 MB", "8 MB"],
        "cost.process": ["7 nm", "5 nm"],
    }
    axes |= {f"units.{name}.peak.fp16": ["50 TFLOP/s", "100 TFLOP/s", "71.3 TFLOP/s"] for name in names}
    axes |= {f"units.{name}.runs.{run}.enabled": [True, False] for name, unit in units.items() for run in unit["runs"]}
    return {"name": "chip", "source": "random", "units": units, "memory": memory, "cost": {"process": "7 nm"}}, axes


def _network(random: Random, folder: Path) -> None:
    """Layers in powers of two, so that times repeat."""
    rows = ["name,kind,m,k,n,count,input_elements,output_elements,prunable"]
    for number in range(random.randint(3, 6)):
        m, k, n = (2 ** random.randint(6, 10) for _ in range(3))
        kind = random.choice(["gemm", "gemm", "gemm", "matmul", "elementwise"])
        sizes = f"{m * k},{m * n}" if kind == "elementwise" else ","
        shape = ",," if kind == "elementwise" else f"{m},{k},{n}"
        rows.append(f"l{number},{kind},{shape},{random.choice([1, 1, 12])},{sizes},{str(kind == 'gemm').lower()}")
    rows.append("last,gemm,512,512,64,1,,,true")
    folder.mkdir()
    (folder / "layers.csv").write_text("\n".join(rows) + "\n")
    (folder / "workload.yaml").write_text("name: net\ntask: a test\nmetric: {name: accuracy}\nsources: [random]\n")


def _sweep(folder: Path, spec: dict[str, Any]) -> xr.Dataset:
    path = folder / "ties.yaml"
    path.write_text(json.dumps(spec))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dse.ModelWarning)
        return dse.sweep(path)


def _expected(folder: Path, spec: dict[str, Any], options: ModelOptions, found: xr.Dataset) -> dict[str, xr.DataArray]:
    """Every number of the sweep by loops, [*axes, batch, variant]."""
    described, workload = read_accelerator(folder / "chip.yaml"), tables.load(folder / "net")
    variants = _variants(workload, found)
    axes = spec.get("axes", {})
    dims, shape = [*axes, "batch", "variant"], [*map(len, axes.values()), len(spec["batch"]), len(variants)]
    names = {
        "resource": sorted({f"{unit}{part}" for unit in described.units for part in ("", ".decoder")} | {"launch", *described.memory}),
        "execution": sorted({f"{unit}.{run}" for unit, made in described.units.items() for run in (*made.runs, "dense")}),
    }
    values = {name: xr.DataArray(np.zeros(shape), dims=dims) for name in ("latency", "dense_latency", "energy")}
    for name, dim in (("bound_share", "resource"), ("execution_share", "execution")):
        values[name] = xr.DataArray(np.zeros([*shape, len(names[dim])]), dims=[*dims, dim], coords={dim: names[dim]})
    for place in itertools.product(*map(range, shape[:-2])):
        design = described.replace({path: axes[path][n] for path, n in zip(axes, place, strict=True)})
        for (b, batch), (v, variant) in itertools.product(enumerate(spec["batch"]), enumerate(variants)):
            one = _network_by_loops(design, described, variant, batch, options)
            dense = _network_by_loops(design, described, workload.dense, batch, options)
            at = (*place, b, v)
            values["latency"][at], values["energy"][at], values["dense_latency"][at] = one["latency"], one["energy"], dense["latency"]
            for name, dim in (("bound_share", "resource"), ("execution_share", "execution")):
                for label, seconds in one[dim].items():
                    values[name][(*at, names[dim].index(label))] = seconds / one["latency"]
    return values


def _variants(workload: Any, found: xr.Dataset) -> list[Variant]:
    made = []
    for method, pattern, sparsity in zip(found.method.values, found.pattern.values, found.sparsity.values, strict=True):
        parsed = dse.sparsity.parse(str(pattern))
        if method == "dense":
            made.append(workload.dense)
        else:
            density = workload.own_density(parsed) if str(pattern) == "2:4" else 1 - found.nominal_sparsity.values[len(made)]
            made.append(workload.hypothetical_variant(parsed, density, 1 - density, "own"))
        assert abs(made[-1].sparsity - sparsity) < 1e-9
    return made


def _network_by_loops(design: Accelerator, described: Accelerator, variant: Variant, batch: int, options: ModelOptions) -> dict[str, Any]:
    """Latency [s], energy [J], and time by resource and by execution of one network on one design."""
    dtype = OperandDtypes.model_validate("fp16")
    efficiency = efficiency_of(options, available_kernels(described, options), described)
    made = network_terms(design, variant, batch, dtype, options, efficiency)
    inverse = inverse_rates(made.executions, design)
    cost = Design(design, base=described)
    total: dict[str, Any] = {"latency": 0.0, "energy": 0.0, "resource": {}, "execution": {}}
    for layer, count in enumerate(made.count):
        ways = [_way(made, layer, e, inverse[e], options, cost) for e in range(len(made.executions))]
        fastest = min(way["time"] for way in ways)
        tied = [way for way in ways if way["time"] <= fastest * (1 + EQUAL)]
        least = min(way["energy"] for way in tied)
        best = min((way for way in tied if way["energy"] <= least * (1 + EQUAL)), key=lambda way: way["name"])
        total["latency"] += count * best["time"]
        total["energy"] += count * best["energy"]
        for resource, seconds in best["by_resource"].items():
            total["resource"][resource] = total["resource"].get(resource, 0.0) + count * seconds
        total["execution"][best["name"]] = total["execution"].get(best["name"], 0.0) + count * best["time"]
    total["energy"] += power.static_power(cost) * total["latency"]
    return total


def _way(made: LayerTerms, layer: int, e: int, inverse: np.ndarray, options: ModelOptions, cost: Design) -> dict[str, Any]:
    """One layer under one execution."""
    execution = made.executions[e]
    times = [float(work * rate) for work, rate in zip(made.slowed_work[0, layer, e], inverse, strict=True)]
    if not made.legal[layer, e]:
        return {"name": execution.name, "time": math.inf, "energy": math.inf}
    named = [
        execution.unit,
        *([f"{execution.unit}.decoder"] if times[METADATA_BYTES] else []),
        execution.outermost_memory,
        *execution.inner_memories,
    ]
    by_resource = [max(times[:METADATA_BYTES]), *([times[METADATA_BYTES]] if times[METADATA_BYTES] else []), *times[TRAFFIC:]]
    fixed = 0.0 if made.overhead is None else float(made.overhead[0, layer, e])
    if options.resource_overlap == "none":
        spent, shares = sum(by_resource), dict(zip(named, by_resource, strict=True))
    else:
        longest = max(by_resource)
        others = max(by_resource[1:])
        spent = longest if options.resource_overlap == "full" else longest and (by_resource[0] ** 4 + others**4) ** 0.25
        bound = next(name for name, time in zip(named, by_resource, strict=True) if time >= longest * (1 - EQUAL))
        shares = {bound: spent}
    done = float(made.energy_flops[layer, e])
    kind = made.layers.has_flops[layer]
    whole = 2 * float(made.layers.m[layer]) * float(made.layers.k[layer]) * float(made.layers.n[layer]) if kind else 0.0
    worked = float(made.stored_flops[layer, e])
    moved = dict(zip((execution.outermost_memory, *execution.inner_memories), map(float, made.traffic[layer, e]), strict=True))
    joules = energies.dynamic_energy(cost, execution.unit, "fp16", ActionCounts(done, worked - done, whole - worked, moved))
    return {
        "name": execution.name,
        "time": spent + fixed,
        "energy": float(joules),
        "by_resource": shares | ({"launch": fixed} if made.overhead is not None else {}),
    }


def _check_layers(folder: Path, spec: dict[str, Any], options: ModelOptions) -> None:
    """`dse.evaluate` chooses as the loops do, layer by layer."""
    chip, workload = read_accelerator(folder / "chip.yaml"), tables.load(folder / "net")
    for variant in (workload.dense, workload.hypothetical_variant(dse.sparsity.parse("block:16x16"), 0.5, 0.5, "own")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dse.ModelWarning)
            layers = dse.evaluate(chip, variant, batch=8, dtype="fp16", **spec["model"])
        expected = _network_by_loops(chip, chip, variant, 8, options)
        np.testing.assert_allclose(layers.latency.sum(), expected["latency"], rtol=1e-12)
        for column, dim in (("execution", "execution"), ("bound", "resource")):
            if dim == "execution" or options.resource_overlap == "full":
                spent = dict.fromkeys(expected[dim], 0.0)
                for label, seconds in zip(layers[column].values, layers.latency.values, strict=True):
                    spent[label] = spent.get(label, 0.0) + seconds
                assert spent == pytest.approx(expected[dim], rel=1e-12, abs=1e-30)


def _check_reductions(random: Random, folder: Path, spec: dict[str, Any], latency: xr.DataArray) -> None:
    """What is kept of a sweep has the latencies of the loops."""
    keep = random.choice([{"top": 3, "minimize": ["latency"]}, {"front": {"minimize": ["latency"]}}])
    found = _sweep(folder, spec | {"keep": keep, "store": {"variables": ["latency"]}})
    smallest = np.unique(np.round(latency.values.ravel() / latency.values.min(), 10))
    best = np.sort(found.latency.values.ravel()[np.isfinite(found.latency.values.ravel())])
    assert len(best) > 0
    np.testing.assert_allclose(best[0], latency.values.min(), rtol=1e-12)
    assert np.isin(np.round(best / latency.values.min(), 10), smallest).all()
