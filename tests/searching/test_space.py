"""Conditional axes: where the condition does not hold, a design has the value of the description, however the axis is written."""

import itertools

import numpy as np
import pytest

from dse.base.errors import InputError
from dse.searching import local_search, report, run
from dse.searching.analysis import estimate_importances
from dse.searching.archive import Archive
from dse.searching.samplers import evaluate_all
from tests.searching.search_specs import write

SWITCH = "\n  units.tensor.runs.sparse_24.enabled: [true, false]"
SPARSE_GAIN = "units.tensor.runs.sparse_24.gain"
WHEN = "when: {units.tensor.runs.sparse_24.enabled: true}"
KINDS = {  # the description has 1 TB/s
    "list": "{{values: [{low} TB/s, 3 TB/s, 4 TB/s], {when}}}",
    "steps": "{{from: {low} TB/s, to: 4 TB/s, steps: 3, {when}}}",
    "range": "{{from: {low} TB/s, to: 4 TB/s, scale: log, {when}}}",
}


def loaded(folder, axis: str, path: str = "memory.dram.bandwidth", search: str = "maximize: [performance]"):
    return run.load_evaluator(write(folder, search, f"{SWITCH}\n  {path}: {axis}"))


@pytest.mark.parametrize("low", ["0.5", "1", "2"], ids=["inside", "listed", "outside"])
@pytest.mark.parametrize("kind", KINDS)
def test_where_a_condition_does_not_hold_the_description_is_used(folder, kind, low):
    evaluator = loaded(folder, KINDS[kind].format(low=low, when=WHEN))
    designs = evaluator.space.random_designs(40, np.random.default_rng(0))
    off = designs[:, 0] == 1
    assert 0 < off.sum() < len(designs)
    bandwidth = evaluator.space.numeric_values(designs)["memory.dram.bandwidth"]
    assert (bandwidth[off] == 1e12).all()
    assert (bandwidth[~off] >= float(low) * 1e12 * (1 - 1e-12)).all()
    np.testing.assert_array_equal(designs, evaluator.space.canonicalize(designs))
    assert evaluator.space.accelerator_at(designs[off][0]).value("memory.dram.bandwidth") == 1e12
    np.testing.assert_allclose(evaluator.evaluate(designs)["performance"][off], evaluator.evaluate(designs[off][:1])["performance"][0])


def test_a_grid_has_every_design_once(folder):
    evaluator = loaded(folder, KINDS["list"].format(low="2", when=WHEN))
    grid = evaluator.space.grid_designs(0, evaluator.space.size)
    described = evaluator.space.decode(grid)
    designs = list(zip(described["units.tensor.runs.sparse_24.enabled"], described["memory.dram.bandwidth"], strict=True))
    assert sorted(designs) == [(False, 1e12), (True, 2e12), (True, 3e12), (True, 4e12)]


def test_a_range_of_widths_has_whole_bits(folder):
    evaluator = loaded(folder, "{from: 64 bit, to: 128 bit}", "memory.dram.width")
    widths = evaluator.space.numeric_values(evaluator.space.random_designs(40, np.random.default_rng(0)))["memory.dram.width"]
    assert len(set(widths)) > 10
    assert (widths % 1 == 0).all()


@pytest.mark.parametrize("value", ["1 TB/s", "1000 GB/s", "2 TB/s"])
def test_a_condition_on_a_number_is_read_like_the_values_of_its_axis(folder, value):
    bandwidth = "memory.dram.bandwidth: {from: 1 TB/s, to: 4 TB/s, steps: 3, scale: log}"
    gain = f"units.tensor.runs.sparse_24.gain: {{values: [1], when: {{memory.dram.bandwidth: {value}}}}}"
    space = run.load_evaluator(write(folder, "maximize: [performance]", f"\n  {bandwidth}\n  {gain}")).space
    designs = space.numeric_values(space.grid_designs())
    met = np.isclose(designs["memory.dram.bandwidth"], 2e12 if value == "2 TB/s" else 1e12)
    np.testing.assert_array_equal(designs["units.tensor.runs.sparse_24.gain"], np.where(met, 1, 2))


def test_a_condition_may_name_a_pattern_of_the_file(folder):
    axes = """
  units.tensor.runs.sparse_24.pattern: ["2:4", mine]
  units.tensor.runs.sparse_24.gain: {values: [1], when: {units.tensor.runs.sparse_24.pattern: mine}}
patterns: {mine: "1:4"}"""
    space = run.load_evaluator(write(folder, "maximize: [performance]", axes)).space
    assert space.dimensions[1].conditions == ((0, 1),)


@pytest.mark.parametrize(
    ("axis", "value", "expected"),
    [
        ("[1 TB/s, 2 TB/s]", "3 TB/s", "'memory.dram.bandwidth' is never '3 TB/s'; write one of its values: 1 TB/s, 2 TB/s"),
        ("[1 TB/s, 2 TB/s]", "1 TB", "'TB' is the wrong unit here; write a quantity in B/s"),
        ("{from: 1 TB/s, to: 2 TB/s}", "1 TB/s", "and a condition is about single ones; give it 'steps', or write a list"),
    ],
)
def test_a_condition_that_never_holds_is_refused_with_the_values_of_its_axis(folder, axis, value, expected):
    with pytest.raises(InputError) as caught:
        loaded(folder, f"{{values: [1, 2], when: {{memory.dram.bandwidth: {value}}}}}", f"memory.dram.bandwidth: {axis}\n  {SPARSE_GAIN}")
    (problem,) = caught.value.problems
    assert problem.key == f"axes.{SPARSE_GAIN}"
    assert expected in str(problem)


@pytest.mark.parametrize("kind", ["list", "steps"])
def test_neighbours_and_random_designs_have_listed_values_only(folder, kind):
    evaluator = loaded(folder, KINDS[kind].format(low="2", when=WHEN))
    start = evaluator.space.canonicalize(np.array([[1.0, 0.0]]))[0]
    around = evaluator.space.canonicalize(local_search.list_neighbours(evaluator.space, start, 3))
    assert {float(row[1]) for row in around if row[0] == 0} == {0.0, 1.0, 2.0}
    archive = Archive(evaluator)
    evaluate_all(archive)
    assert set(estimate_importances(evaluator)) == {"units.tensor.runs.sparse_24.enabled", "memory.dram.bandwidth"}
    table = report.best_designs_table(archive)
    assert set(table[table["units.tensor.runs.sparse_24.enabled"].astype(str) == "False"]["inactive"]) <= {"memory.dram.bandwidth"}


@pytest.mark.parametrize(
    ("path", "listed", "own"),
    [
        ("units.vector.runs.csr.pattern", "['block:4x4*', '1:4']", "unstructured"),
        ("units.vector.runs.csr.enabled", "[false]", True),
        ("units.tensor.runs.sparse_24.gain", "[1.5, 1.8]", 2.0),
    ],
)
def test_labels_and_switches_fall_back_to_the_description_too(folder, path, listed, own):
    evaluator = loaded(folder, f"{{values: {listed}, {WHEN}}}", path)
    design = evaluator.space.canonicalize(np.array([[1.0, 0.0]]))
    assert evaluator.space.decode(design)[path][0] == own
    assert np.isfinite(evaluator.evaluate(design)["performance"]).all()


def test_conditions_in_a_chain(folder):
    """A dimension that fell back to the description decides by that value on those after it."""
    axes = (
        f"{SWITCH}\n  units.vector.runs.csr.enabled: {{values: [false], {WHEN}}}"
        "\n  memory.dram.bandwidth: {values: [2 TB/s], when: {units.vector.runs.csr.enabled: false}}"
    )
    space = run.load_evaluator(write(folder, "maximize: [performance]", axes)).space
    described = space.decode(space.grid_designs(0, space.size))
    rows = set(zip(*(values.tolist() for values in described.values()), strict=True))
    assert rows == {(True, False, 2e12), (False, True, 1e12)}


def test_a_description_without_the_value_is_refused_with_the_line_of_the_axis(folder):
    path = write(folder, "maximize: [performance]", f"{SWITCH}\n  units.vector.runs.csr.gain: {{values: [2, 4], {WHEN}}}")
    with pytest.raises(
        InputError, match=r"axes.units.vector.runs.csr.gain: 'chip' gives no 'units.vector.runs.csr.gain' for the designs in which"
    ):
        run.load_evaluator(path)


def test_tabulated_capacities_fall_back_to_the_description_too(folder):
    """The description's capacity lies between two of the grid, and outside of the list."""
    results = []
    for axis in ("{values: [8 MB, 20 MB], %s}", "{from: 8 MB, to: 20 MB, steps: 2, %s}", "{from: 8 MB, to: 20 MB, scale: log, %s}"):
        path = write(folder, "maximize: [performance]", f"{SWITCH}\n  memory.l2.capacity: {axis % WHEN}")
        path.write_text(path.read_text().replace("fidelity: r3", "fidelity: capacity"))
        chip = (
            (folder / "chip.yaml")
            .read_text()
            .replace("memory:\n", "memory:\n")
            .replace("bandwidth: 1 TB/s}\n", "bandwidth: 1 TB/s}\n  l2: {capacity: 3 MB, bandwidth: 4 TB/s}\n")
        )
        (folder / "chip.yaml").write_text(chip)
        evaluator = run.load_evaluator(path)
        design = evaluator.space.canonicalize(np.array([[1.0, 0.0]]))
        assert evaluator.space.numeric_values(design)["memory.l2.capacity"] == 3e6
        results.append(evaluator.evaluate(design)["performance"][0])
    assert all(a == pytest.approx(b, rel=1e-12) for a, b in itertools.pairwise(results))


def test_gradients_do_not_change_inactive_dimensions(folder):
    evaluator = run.load_evaluator(
        write(
            folder, "maximize: [performance]\nconstraints: [area <= 390 mm^2]",
            f"{SWITCH}\n  memory.dram.bandwidth: {KINDS['range'].format(low='2', when=WHEN)}"
            "\n  units.tensor.peak.fp16: {from: 20 TFLOP/s, to: 400 TFLOP/s, scale: log}",
        )
    )  # fmt: skip
    archive = Archive(evaluator)
    archive.evaluate(evaluator.space.canonicalize(np.array([[1.0, 1e12, 30e12]])))
    local_search.refine(archive, 2000)
    off = archive.designs[:, 0] == 1
    assert (archive.designs[off, 1] == 1e12).all()
    assert archive.values[archive.best_index(), 0] <= archive.values[:, 0].min()
