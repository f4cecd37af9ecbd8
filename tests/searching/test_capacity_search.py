"""On-chip capacities as dimensions of a search: tabulated results equal those of a sweep, and gradients lead to better capacities."""

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.searching import categorical_config as structures
from dse.searching import local_search, run
from dse.searching.analysis import compute_elasticities
from dse.searching.archive import Archive
from dse.searching.batch_evaluator import compiled_evaluate_batch
from dse.searching.evaluator import Evaluator
from tests.conftest import link
from tests.searching.search_specs import CHIP, write

MEMORY = """memory:
  dram: {capacity: 1 GB, bandwidth: 0.3 TB/s}
  l2: {capacity: 1 MB, bandwidth: 1 TB/s}
  l1: {capacity: 64 KiB, bandwidth: 8 TB/s}
"""
LISTED = """
  memory.l2.capacity: [4 MB, 30 kB, 1 MB]
  memory.l1.capacity: [8 KiB, 256 KiB]
  memory.dram.bandwidth: [0.1 TB/s, 1 TB/s]
"""
CONTINUOUS = """
  memory.l2.capacity: {from: 16 KiB, to: 16 MiB, scale: log}
  memory.dram.bandwidth: {from: 0.05 TB/s, to: 4 TB/s, scale: log}
"""
ONE_GOAL = "maximize: [performance]"


def written(folder, axes: str, search: str = ONE_GOAL, model: str = "fidelity: capacity"):
    path = write(folder, search, axes)
    path.write_text(path.read_text().replace("fidelity: r3", model))
    before, _, cost = CHIP.partition("memory:\n")
    (folder / "chip.yaml").write_text(before + MEMORY + cost[cost.index("cost:") :])
    return path


def capacity_designs(folder, *arguments, **keywords) -> Evaluator:
    return run.load_evaluator(written(folder, *arguments, **keywords))


def placed(evaluator: Evaluator, **values: float) -> np.ndarray:
    """Designs that differ in one dimension, named by the last parts of its path, the others in the middle."""
    ((name, along),) = values.items()
    rows = np.array([[np.sqrt(np.prod(d.axis.values)) for d in evaluator.space.dimensions]] * len(along))
    rows[:, [d.path.endswith(name.replace("_", ".")) for d in evaluator.space.dimensions]] = np.array(along)[:, None]
    return rows


@pytest.mark.parametrize("fusion", ["none", "fitting"])
def test_designs_at_listed_capacities_have_the_results_of_a_sweep(folder, fusion):
    goal = "maximize: [performance]\nminimize: [energy, area, power]\nconstraints: [accuracy_drop <= 100]"
    model = f"fidelity: capacity, fusion: {fusion}"
    link(folder)  # else nothing is fused
    evaluator = capacity_designs(folder, LISTED, goal, model)
    designs = evaluator.space.grid_designs(0, evaluator.space.size)
    results, described = evaluator.evaluate(designs), evaluator.space.decode(designs)
    sweep = folder / "sweep.yaml"
    sweep.write_text(
        f"name: s\naccelerators: [./chip.yaml]\nworkloads:\n  ./net: {{methods: all}}\nbatch: [4]\ndtype: fp16\n"
        f"model: {{{model}, dense_fallback: true}}\naxes:{LISTED}"
        "store: {variables: [latency, dense_latency, energy, area, power]}\n"
    )
    swept = dse.sweep(sweep).squeeze()
    for number in range(len(designs)):
        here = swept.sel({path: values[number] for path, values in described.items()})
        fastest = here.isel(variant=int(np.argmin(here.latency.values)))
        latency = min(fastest.latency.item(), here.dense_latency.values[0])
        assert results["latency"][number] == pytest.approx(latency, rel=1e-12)
        if fastest.latency.item() < here.dense_latency.values[0]:
            assert results["energy"][number] == pytest.approx(fastest.energy.item(), rel=1e-12)
        assert results["area"][number] == pytest.approx(here.area.values.flat[0], rel=1e-12)
        assert results["power"][number] == pytest.approx(here.power.values.flat[0], rel=1e-12)


def test_between_two_capacities_of_the_grid_the_traffic_is_that_of_the_smaller(folder):
    evaluator = capacity_designs(folder, CONTINUOUS)
    grid = evaluator.space.dimensions[0].grid
    assert grid[0] == 16 * 2**10
    assert grid[-1] == 16 * 2**20
    assert (grid[1:] / grid[:-1] < 1.05).all()
    inside = placed(evaluator, l2_capacity=grid[:-1] * 1.02)
    np.testing.assert_array_equal(evaluator.space.canonicalize(inside)[:, 0], grid[:-1])
    latency = evaluator.evaluate(inside)["latency"]
    np.testing.assert_array_equal(latency, evaluator.evaluate(evaluator.space.canonicalize(inside))["latency"])
    for design, rounded in list(zip(inside, latency, strict=True))[::40]:
        exact = min(
            float(
                dse.evaluate(
                    evaluator.space.accelerator_at(design), variant, 4, "fp16", **evaluator.problem.options.model_dump()
                ).latency.sum()
            )
            for variant in evaluator.variants
        )
        assert exact * (1 - 1e-12) <= rounded <= exact * 1.05


def test_more_capacity_is_never_slower_and_takes_area(folder):
    evaluator = capacity_designs(folder, CONTINUOUS, "maximize: [performance]\nconstraints: [area <= 1000 mm^2, power <= 1000 W]")
    results = evaluator.evaluate(placed(evaluator, l2_capacity=evaluator.space.dimensions[0].grid))
    assert (np.diff(results["latency"]) <= 0).all()
    assert results["latency"][-1] < 0.7 * results["latency"][0]
    assert (np.diff(results["area"]) > 0).all()
    assert (np.diff(results["power"]) > 0).all()


def test_a_capacity_has_an_elasticity_that_is_the_difference_to_the_next_one(folder):
    """Exact where memory bounds every layer on both sides, and never negative."""
    evaluator = capacity_designs(folder, CONTINUOUS)
    grid, slopes, differences = evaluator.space.dimensions[0].grid, [], []
    rows = placed(evaluator, l2_capacity=grid)
    rows[:, 1] = 0.05e12
    performance = evaluator.evaluate(rows)["performance"]
    for number in range(0, len(grid) - 1, 20):
        archive = Archive(evaluator)
        archive.evaluate(rows[[number]])
        slopes.append(compute_elasticities(archive)["memory.l2.capacity"])
        differences.append(np.log(performance[number + 1] / performance[number]) / np.log(grid[number + 1] / grid[number]))
    assert min(slopes) >= 0
    assert max(slopes) > 0.2
    np.testing.assert_allclose(slopes, differences, rtol=0.01, atol=1e-3)


def test_each_capacity_is_tabulated_once_and_none_compiles_anew(folder, monkeypatch):
    seen: list[tuple] = []
    original = structures.complete_terms

    def counted(terms, accelerator, *rest, **options):
        seen.append((terms, accelerator.value("memory.l2.capacity"), accelerator.value("memory.l1.capacity")))
        return original(terms, accelerator, *rest, **options)

    monkeypatch.setattr(structures, "complete_terms", counted)
    evaluator = capacity_designs(folder, LISTED)
    designs = evaluator.space.grid_designs(0, evaluator.space.size)
    evaluator.evaluate(designs[:4])
    compiled = compiled_evaluate_batch._cache_size()
    for start in range(0, len(designs), 4):
        evaluator.evaluate(designs[start : start + 4])
    assert compiled_evaluate_batch._cache_size() == compiled
    assert len(seen) == len(set(seen)) == 3 * len(evaluator.variants)


def test_local_search_finds_the_best_use_of_area_for_capacity(folder):
    """All of the area is taken, half of it by capacity that buys little."""
    evaluator = capacity_designs(folder, CONTINUOUS, "maximize: [performance]\nconstraints: [area <= 410 mm^2]")
    start = np.array([evaluator.space.dimensions[0].grid[-1], 0.1e12])
    archive = Archive(evaluator)
    archive.evaluate(start[None])
    assert archive.feasible_count
    local_search.refine(archive, 2000)
    best = archive.designs[archive.best_index()]
    assert best[0] < start[0] / 2
    assert archive.values[archive.best_index(), 0] < evaluator.score(start[None])[0][0, 0] * 1.1
    grid = evaluator.space.dimensions[0].grid
    rows = np.stack(np.meshgrid(grid, np.geomspace(0.05e12, 4e12, 400), indexing="ij"), axis=-1).reshape(-1, 2)
    values, excess = evaluator.score(rows)
    assert archive.values[archive.best_index(), 0] <= values[(excess <= 0).all(axis=1), 0].min() * (1 - 1e-3)


def test_a_search_reports_capacities_like_rates(folder):
    path = written(folder, CONTINUOUS, "maximize: [performance]\nconstraints: [area <= 410 mm^2]\ntrials: 20\nask_batch: 20\npolish: false")
    front = dse.search(path)
    assert '"memory.l2.capacity"' in front.attrs["elasticities"]
    assert '"memory.l2.capacity"' in front.attrs["importances"]
    assert front["memory.l2.capacity"].attrs["units"] == "B"


def test_too_many_tabulated_capacities_are_refused_with_their_line(folder):
    path = written(folder, "\n  memory.l2.capacity: {from: 1 MB, to: 2 MB, steps: 5000}")
    with pytest.raises(
        InputError, match=r"bytes are tabulated for each value of 'memory.l2.capacity'; write at most 1000 steps, or none"
    ) as error:
        run.load_evaluator(path)
    assert str(error.value).startswith(f"{path}:")
