"""Axes: what they take, how they are labelled, which go together."""

import json

import numpy as np
import pytest

import dse
from dse.base.errors import InputError

RUN = "units.tensor.runs.sparse_24"


@pytest.fixture
def with_axes(folder):
    def write(axes: str):
        path = folder / "small.yaml"
        path.write_text(path.read_text() + f"axes: {axes}\n")
        return path

    return write


def test_linear_and_logarithmic_ranges_hit_both_ends(with_axes):
    found = dse.sweep(
        with_axes(
            "{memory.dram.bandwidth: {from: 1 TB/s, to: 4 TB/s, steps: 4}, units.tensor.peak.fp16: {from: 1 TFLOP/s, to: 8 TFLOP/s, steps: 4, scale: log}}"
        )
    )
    np.testing.assert_allclose(found["memory.dram.bandwidth"], [1e12, 2e12, 3e12, 4e12], rtol=1e-14)
    np.testing.assert_allclose(found["units.tensor.peak.fp16"], [1e12, 2e12, 4e12, 8e12], rtol=1e-12)


def test_combinations_of_axes_are_checked_together(with_axes, folder):
    axes = f"{{{RUN}.pattern: ['2:4', unstructured], {RUN}.format.kind: [bitmask, combinatorial]}}"
    found = dse.sweep(with_axes(axes))
    assert list(found[f"{RUN}.format.kind"].values) == ["bitmask", "combinatorial"]
    bits = found.latency.isel(accelerator=0, batch=0, dtype=0, variant=2).sel({f"{RUN}.pattern": "2:4"})
    assert bits[1] <= bits[0]


def test_invalid_combinations_of_axes_are_reported_in_the_file_of_the_sweep(with_axes):
    path = with_axes(f"{{{RUN}.pattern: ['2:4', 'block:4x4'], {RUN}.format.kind: [nm_index, csr]}}")
    with pytest.raises(InputError) as caught:
        dse.sweep(path)
    assert all(problem.file == path and problem.line == 7 for problem in caught.value.problems)
    assert "cannot store pattern 'block:4x4'" in str(caught.value)


def test_an_axis_of_a_format_option_that_the_description_leaves_to_its_default(with_axes, edited):
    """The narrower index moves fewer bytes: memory-bound unstructured layers get faster."""
    edited("chip.yaml", ("1 TB/s", "1 GB/s"))
    found = dse.sweep(with_axes("{units.vector.runs.csr.format.index: [16 bit, 32 bit]}"))
    narrow, wide = found.latency.isel(accelerator=0, batch=0, dtype=0, variant=0)
    assert narrow < wide
    assert found["units.vector.runs.csr.format.index"].attrs["units"] == "bit"


@pytest.mark.parametrize(
    ("keys", "path", "values"),
    [
        ("tile: 16x16", "tile", ["1x1", "16x16", "64x64"]),
        ("efficiency: 0.5", "tile", ["16x16", "64x64"]),
        ("efficiency: 0.5", "zeros", ["skipped", "gated"]),
        ("activations: {zeros: skipped}", "activations.zeros", ["skipped", "gated"]),
        ("activations: {zeros: skipped}", "activations.tokens", [1, 8]),
        ("activations: {zeros: skipped}", "activations.gathers_weights", [True, False]),
        ("activations: {format: {kind: bitmask}}", "activations.format.kind", ["bitmask", "csr"]),
    ],
)
def test_an_axis_of_a_run_is_a_sweep_of_one_description_for_each_value(folder, edited, with_axes, keys, path, values):
    edited("chip.yaml", ("csr: {pattern: unstructured, efficiency: 0.5}", f"csr: {{pattern: unstructured, {keys}}}"))
    path = f"units.vector.runs.csr.{path}"
    swept = dse.sweep(with_axes(f"{{{path}: {json.dumps(values)}}}")).latency.squeeze("accelerator")
    chip, variants = dse.load_accelerator(folder / "chip.yaml"), dse.load_workload(folder / "net").variants
    for number, value in enumerate(values):
        expected = [float(dse.evaluate(chip.replace({path: value}), variant, 16).latency.sum()) for variant in variants]
        np.testing.assert_allclose(swept.sel(batch=16)[number].squeeze(), expected, rtol=1e-9)


@pytest.mark.parametrize("axis", ["[mine, '2:4']", "{values: [mine, '2:4']}"])
def test_names_of_patterns_are_values_of_axes(with_axes, axis):
    path = with_axes(f"{{{RUN}.pattern: {axis}}}\npatterns: {{mine: '1:4'}}")
    assert list(dse.sweep(path)[f"{RUN}.pattern"].values) == ["1:4", "2:4"]


@pytest.mark.parametrize(("path", "unit"), [("memory.dram.channels", ""), ("memory.dram.width", " bit")])
def test_values_of_counts_and_widths_are_whole_numbers(with_axes, edited, path, unit):
    """Rounding errors of a logarithmic range are not fractions."""
    edited("chip.yaml", ("bandwidth: 1 TB/s", "channels: 4, width: 64 bit, rate: 4 GT/s"))
    spec = with_axes(f"{{{path}: {{from: 16{unit}, to: 256{unit}, steps: 5, scale: log}}}}")
    assert list(dse.sweep(spec)[path].values) == [16, 32, 64, 128, 256]
    spec.write_text(spec.read_text().replace("steps: 5", "steps: 4"))
    with pytest.raises(InputError, match=f"'{path}' takes 40.3175, which is not a whole number; list whole numbers, or take other steps"):
        dse.sweep(spec)


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ("{memory.dram: [{bandwidth: 1 TB/s}]}", "'chip' has no 'memory.dram'"),
        ("{name: [a, b]}", "'chip' has no 'name'"),
        (f"{{{RUN}.format: [{{kind: csr}}]}}", f"'chip' has no '{RUN}.format'"),
        (f"{{{RUN}.pattern: [[mine]]}}\npatterns: {{mine: '1:4'}}", "'['1:4']' is not a pattern; write text, as in '2:4'"),
        (f"{{{RUN}.pattern: [{{a: 1}}]}}", "takes one plain value at a time; write texts, switches or lists"),
        (f"{{{RUN}.pattern: ['2:4', '2:4']}}", "takes a value twice; give different values"),
        (f"{{{RUN}.enabled: [true, true]}}", "takes a value twice; give different values"),
        (f"{{{RUN}.enabled: [perhaps]}}", f"'{RUN}.enabled' is a switch; write true and false"),
        (f"{{{RUN}.gain: [null, 2]}}", "takes a value that is empty; write a number with its unit each time"),
        ("{units.vector.runs.csr.format.index: {from: 8 bit, to: 32 bit, steps: 100000}}", "write at most 1000 steps"),
        (f"{{{RUN}.tile: {{from: 1x1, to: 4x4, steps: 2}}}}", f"'{RUN}.tile' takes no range; write a list of values"),
        (f"{{{RUN}.tile: ['16']}}", "'16' is not a tile; write rows x columns, as in '16x16'"),
        (f"{{{RUN}.zeros: [skiped]}}", "'skiped' is not known here; write one of 'skipped' or 'gated'"),
        (f"{{{RUN}.activations: [true]}}", f"'{RUN}.activations' is not a number; write an accelerator for each value"),
        (f"{{{RUN}.scores: [{{tile: 1x1}}]}}", f"'{RUN}.scores' is not a number; write an accelerator for each value"),
        (f"{{{RUN}.gain: {{values: [1, 2], when: {{{RUN}.enabled: nonsense}}}}}}", "gain.when: a sweep has no conditional axes; remove 'when', or run 'dse search'"),
        (f"{{{RUN}.pattern: ['5:4']}}", "'5:4' keeps 5 of 4, which is impossible; write N:M with N <= M, as in '4:5'"),
        ("{memory.dram.bandwidth: {from: 1 TB/s, to: 2 TB/s, steps: 100000}, units.tensor.peak.fp16: {from: 1 TFLOP/s, to: 2 TFLOP/s, steps: 100000}}", "GB, and are kept in memory; write them to a Zarr store ('-o small.zarr'), reduce them ('keep: summary'), or stay below "),
    ],
)  # fmt: skip
def test_invalid_axes_are_refused(with_axes, axes, expected):
    path = with_axes(axes)
    with pytest.raises(InputError) as caught:
        dse.sweep(path)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (path, 7)
    assert expected in str(problem)


def test_all_wrong_values_of_an_axis_are_reported_at_once(with_axes):
    axes = f"{{memory.dram.bandwidth: [1 TB/s, 2 TB, -1 TB/s, 3], {RUN}.pattern: ['2:4', '5:4', 'x']}}"
    with pytest.raises(InputError) as error:
        dse.sweep(with_axes(axes))
    messages = [problem.message for problem in error.value.problems]
    assert len(messages) == 5
    assert all(
        any(text in message for message in messages) for text in ("'TB' is the wrong unit", "-1 TB/s", "3 has no unit", "5:4", "'x'")
    )
