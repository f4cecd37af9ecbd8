"""The default search compared with random and quasi-random search at equal numbers of evaluations; prints the table of docs/explanation/search.md.

    python tests/benchmarks/samplers.py [--problems 20] [--seeds 3] [--samplers evolutionary random qmc] [--csv FILE]

Problems are random: a shipped accelerator, one or two workloads, 2 to 8 axes around the accelerator's numbers, one or two
objectives, an accuracy drop, and limits on area and power that a stated share of random designs meets. Every evaluation counts, those of
local refinement and of gradients included. The figure of merit is the hypervolume, as a share of the box between the worst value of each
objective among random feasible designs and its best value on any front; with one objective, the share of the way from worst to best.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import qmc

from dse.base import catalog
from dse.model.memory_levels import capacity_paths
from dse.schema.accelerator import Accelerator, read_accelerator
from dse.schema.model_options import Fidelity
from dse.searching import run
from dse.searching.archive import Archive
from dse.searching.evaluator import Evaluator
from dse.sweeping.pareto_front import hypervolume, nondominated

BUDGETS = (500, 2000, 5000)
SHIPPED = ("edge_accelerator", "next_tensor_core", "cache_or_bandwidth", "bandwidth_or_compute")
WORKLOADS = ("resnet50", "mobilenet-v1", "bert-base", "deit-b", "efficientnet-b0")
OBJECTIVES: tuple[dict[str, list[str]], ...] = (
    {"maximize": ["performance"]},
    {"maximize": ["performance / area"]},
    {"minimize": ["edp"]},
    {"maximize": ["performance"], "minimize": ["area"]},
    {"minimize": ["latency", "energy"]},
    {"maximize": ["speedup"], "minimize": ["power"]},
)
FIDELITIES: tuple[Fidelity, ...] = ("sol", "r3", "capacity")
LIMIT_QUANTILES = (0.15, 0.7)  # of random designs, for the limits on area and power
SAMPLES = 400  # random designs that decide a limit
DISTINCT = 4  # best random designs that have to differ in each objective, so that a problem is not solved by chance
EQUAL = 1e-6  # difference of shares of the hypervolume that counts as equal


@dataclass(frozen=True)
class Benchmark:
    """A search problem, with the text that describes it."""

    name: str
    evaluator: Evaluator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first random problem")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--samplers", nargs="+", default=["evolutionary", "random", "qmc"], help="the first is compared with the others")
    parser.add_argument("--shipped", action="store_true", help="compare on the shipped searches too")
    parser.add_argument("--csv", help="write every share to this file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = []
    for benchmark in _list_benchmarks(options.first, options.problems, options.shipped):
        start = time.perf_counter()
        tables.append(compare(benchmark, options.samplers, options.budgets, options.seeds))
        mean = tables[-1].groupby(["budget", "sampler"], sort=False).share.mean().unstack()
        rows = "  ".join(f"{budget}: " + " ".join(f"{share:.5f}" for share in mean.loc[budget, options.samplers]) for budget in mean.index)
        print(f"{benchmark.name} | {rows} | {time.perf_counter() - start:.0f} s", flush=True)
    table = pd.concat(tables)
    if options.csv:
        table.to_csv(options.csv, index=False)
    summarise(table, options.samplers)


def summarise(table: pd.DataFrame, samplers: list[str]) -> None:
    """Print the mean share of each sampler and budget, and on how many problems the first one is at least equal to each other."""
    ours, *others = samplers
    print(f"\n| evaluations | {' | '.join(samplers)} | {' | '.join(f'at least equal to {other}' for other in others)} |")
    print("|" + "---|" * (1 + len(samplers) + len(others)))
    for budget, group in table.groupby("budget"):
        mean = group.groupby(["problem", "sampler"]).share.mean().unstack()
        shares = [f"{mean[sampler].mean():.4f}" for sampler in samplers]
        wins = [f"{int((mean[ours] >= mean[other] - EQUAL).sum())} of {len(mean)}" for other in others]
        print(f"| {budget} | {' | '.join(shares)} | {' | '.join(wins)} |")


def compare(benchmark: Benchmark, samplers: list[str], budgets: tuple[int, ...], seeds: int) -> pd.DataFrame:
    """The share of the hypervolume of each sampler, budget and seed."""
    fronts = {
        (sampler, budget, seed): front
        for sampler in samplers
        for seed in range(seeds)
        for budget, front in _fronts(benchmark.evaluator, sampler, budgets, seed)
    }
    best = np.min([front.min(axis=0) for front in fronts.values() if len(front)], axis=0)
    span = _worst_random(benchmark.evaluator) - best
    shares = [(*key, hypervolume((front - best) / span, np.ones(len(best))) if len(front) else 0.0) for key, front in fronts.items()]
    table = pd.DataFrame(shares, columns=["sampler", "budget", "seed", "share"])
    table.insert(0, "problem", benchmark.name)
    return table


def _fronts(evaluator: Evaluator, sampler: str, budgets: tuple[int, ...], seed: int) -> Iterator[tuple[int, np.ndarray]]:
    """The front in the objectives after each number of evaluations."""
    if sampler not in ("random", "qmc"):
        for budget in budgets:
            own = evaluator.with_search(sampler=sampler, trials=budget, seed=seed)
            archive = run.run_search(own, f"benchmark {seed}", None, resume=False, join=False, progress=False)
            assert archive.evaluated_count <= budget, f"{archive.evaluated_count} evaluations are more than {budget}"
            yield budget, _objective_front(archive)
        return
    space = evaluator.space
    designs = (
        space.random_designs(max(budgets), np.random.default_rng(seed))
        if sampler == "random"
        else space.from_unit(qmc.Sobol(len(space.dimensions), rng=np.random.default_rng(seed)).random(max(budgets)))
    )
    archive, start = Archive(evaluator), 0
    for budget in sorted(budgets):
        archive.evaluate(designs[start:budget])
        start = budget
        yield budget, _objective_front(archive)


def _worst_random(evaluator: Evaluator) -> np.ndarray:
    """The worst value of each objective among random feasible designs."""
    objectives, excess = evaluator.score(evaluator.space.random_designs(SAMPLES, np.random.default_rng(0)))
    return objectives[(excess <= 0).all(axis=1)].max(axis=0)


def _objective_front(archive: Archive) -> np.ndarray:
    values = archive.values[:, : len(archive.evaluator.problem.search.objectives)]
    return values[nondominated(values)] if len(values) else values


def _list_benchmarks(first: int, count: int, shipped: bool) -> Iterator[Benchmark]:
    for name in SHIPPED if shipped else ():
        yield Benchmark(name, run.load_evaluator(name))
    for number in range(first, first + count):
        yield random_problem(np.random.default_rng([1, number]), number)


def random_problem(generator: np.random.Generator, number: int) -> Benchmark:
    """A random problem that some random designs solve."""
    names = [name for name in catalog.list_names("accel_models") if _is_suitable(name)]
    while True:
        accelerator = read_accelerator(catalog.find_path("accel_models", generator.choice(names)))
        fidelity = FIDELITIES[generator.integers(len(FIDELITIES))]
        axes = _random_axes(accelerator, fidelity, generator)
        objectives = OBJECTIVES[generator.integers(len(OBJECTIVES))]
        workloads = [str(name) for name in generator.choice(WORKLOADS, size=generator.integers(1, 3), replace=False)]
        drop = f"accuracy_drop <= {generator.choice([0.5, 1.0, 2.0])}"
        spec: dict[str, Any] = {
            "name": f"random_{number}",
            "accelerators": [accelerator.name],
            "workloads": {name: {"methods": "all"} for name in workloads},
            "batch": [int(generator.choice([1, 8, 32]))],
            "dtype": "fp16",
            "model": {"fidelity": fidelity, "dense_fallback": True},
            "axes": axes,
            "search": {**objectives, "constraints": [drop, "area <= 1e9 mm^2", "power <= 1e9 W"]},
        }
        sampled = run.load_evaluator(spec)
        results = sampled.evaluate(sampled.space.random_designs(SAMPLES, generator))
        area, power = (float(np.quantile(results[name], generator.uniform(*LIMIT_QUANTILES))) for name in ("area", "power"))
        spec["search"]["constraints"] = [drop, f"area <= {area * 1e6!r} mm^2", f"power <= {power!r} W"]
        evaluator = run.load_evaluator(spec)
        if _is_hard(evaluator):
            objective = ", ".join(f"{verb} {name}" for verb, names in objectives.items() for name in names)
            return Benchmark(f"{number} {accelerator.name}, {' + '.join(workloads)}, {len(axes)} axes, {objective}", evaluator)


def _is_hard(evaluator: Evaluator) -> bool:
    """Whether some but not all random designs are feasible, and the best ones of these differ in each objective."""
    objectives, excess = evaluator.score(evaluator.space.random_designs(SAMPLES, np.random.default_rng(0)))
    feasible = objectives[(excess <= 0).all(axis=1)]
    best = np.sort(feasible, axis=0)[:DISTINCT]
    return SAMPLES // 100 <= len(feasible) < SAMPLES and bool((np.diff(best, axis=0) > EQUAL * np.abs(best[1:])).all())


def _is_suitable(name: str) -> bool:
    """Whether an accelerator computes in fp16, has more than one unit, and a process to model costs from."""
    accelerator = read_accelerator(catalog.find_path("accel_models", name))
    return accelerator.cost.process is not None and any("fp16" in unit.peak for unit in accelerator.units.values())


def _random_axes(accelerator: Accelerator, fidelity: Fidelity, generator: np.random.Generator) -> dict[str, Any]:
    """Two to eight axes: peaks, bandwidths, capacities, gains and switches of runs."""
    numbers, switches = dict[str, Any](), dict[str, Any]()
    for name, unit in accelerator.units.items():
        numbers |= {f"units.{name}.peak.fp16": "FLOP/s"} if "fp16" in unit.peak else {}
        switches |= {f"units.{name}.runs.{each}.enabled": None for each in unit.runs if each != "dense"}
        numbers |= {f"units.{name}.runs.{each}.gain": "" for each, one in unit.runs.items() if one.gain is not None}
    numbers |= {f"memory.{name}.bandwidth": "B/s" for name, memory in accelerator.memory.items() if memory.bandwidth is not None}
    numbers |= dict.fromkeys(capacity_paths(accelerator, fidelity), "B")
    paths = [*numbers, *switches]
    count = min(len(paths), int(generator.integers(2, 9)))
    always = [path for path in numbers if path.endswith(("fp16", "dram.bandwidth", "hbm.bandwidth"))][:2]
    others = [path for path in paths if path not in always]
    chosen = [*always, *(str(path) for path in generator.choice(others, size=min(len(others), max(0, count - len(always))), replace=False))]
    return {path: [True, False] if path in switches else _random_range(accelerator, path, numbers[path], generator) for path in chosen}


def _random_range(accelerator: Accelerator, path: str, unit: str, generator: np.random.Generator) -> dict[str, Any]:
    """A range around the described value: continuous, or of 8 to 64 steps."""
    described = accelerator.value(path)
    assert described is not None, path
    low, high = (1.0, max(2.0, 2 * described)) if not unit else (described / 8, described * 4)
    axis: dict[str, Any] = {"from": f"{low!r} {unit}".strip(), "to": f"{high!r} {unit}".strip(), "scale": "log"}
    return axis if generator.random() < 0.7 else axis | {"steps": int(generator.integers(8, 65))}


if __name__ == "__main__":
    main()
