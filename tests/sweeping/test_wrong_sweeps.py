"""Wrong sweeps: every problem at once, with its file and line; figures are checked before the work."""

import pytest

import dse
from dse.base.errors import InputError
from dse.cli import entry
from dse.plot import FIGURES


def problems(path) -> list[str]:
    with pytest.raises(InputError) as caught:
        dse.sweep(path)
    return [str(problem) for problem in caught.value.problems]


def test_two_of_one_name_are_refused(folder, edited):
    (folder / "other.yaml").write_text((folder / "chip.yaml").read_text())
    path = edited("small.yaml", ("[./chip.yaml]", "[./chip.yaml, ./other.yaml]"))
    assert problems(path) == [f"{path}:2: accelerators: two are named 'chip'; list it once, or change the 'name' in one of the files"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[1, 16]", "[1, 1]"),
        ("fp16", "[fp16, fp16]"),
        ("methods: all", "methods: [pruned, pruned]"),
        ("[./chip.yaml]", "[./chip.yaml, ./chip.yaml]"),
    ],
)
def test_nothing_is_listed_twice(edited, old, new):
    (problem,) = problems(edited("small.yaml", (old, new)))
    assert "is listed twice; list it once" in problem


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("dtype: fp16", "dtype: fp64", 6, "dtype: 'chip' has no unit that computes in 'fp64'; use one of fp16, fp32, int8, or give a unit a peak for 'fp64'"),
        ("dtype: fp16", "dtype: [fp16, fp16 cache=fp16]", 6, "dtype: 'fp16' and 'fp16 cache=fp16' have the label 'fp16' in results; list one of them"),
        ("dtype: fp16", "dtype: float16", 6, "dtype: unknown dtype 'float16'; did you mean 'fp16'?"),
        ("batch: [1, 16]", "batch: 0", 5, "batch: 0 is out of range; write a number of at least 1"),
        ("./chip.yaml", "chp.yaml", 2, "accelerators.0: '{folder}/chp.yaml' does not exist; did you mean 'chip.yaml'?"),
        ("./chip.yaml", "a100-sxm4", 2, "accelerators.0: 'a100-sxm4' is not an accelerator of the catalogue; did you mean 'a100-sxm4-40gb' or 'a100-sxm4-80gb'? (a path needs a '/', or the ending .yaml or .yml)"),
        ("methods: all", "methods: [prune]", 4, "workloads../net.methods.0: 'net' has no method 'prune'; did you mean 'pruned'?"),
        ("methods: all", "methods: []", 4, "workloads../net.methods: no variant of 'net' is selected; write 'all', a method, or 'patterns'"),
        ("methods: all", "sparsities: [0.77]", 4, "workloads../net.sparsities: no selected method of 'net' has sparsity 0.77; write one of 0.5, 0.75, 0.9"),
        ("methods: all", "methods: [], patterns: ['2:4'], sparsities: [0.5]", 4, "workloads../net.sparsities: no selected method of 'net' has sparsity 0.5; select a method that has it, or leave out the sparsity"),
        ("dtype: fp16", "dtype: fp16\nplots: [roof]", 7, "plots.0: 'roof' is not known here; write one of 'sparsity_roofline', 'speedup', 'axis', 'pareto', 'roofline', 'layers', 'capacity', 'efficiency' or 'inputs'"),
        ("dtype: fp16", "dtype: fp16\nplots: [speedup]\nstore: {variables: [latency]}", 8, "store.variables: the figure 'speedup' needs 'speedup'; add it"),
        ("dtype: fp16", "dtype: fp16\naxes: {memory.dram.bandwith: [1 TB/s]}", 7, "axes.memory.dram.bandwith: 'chip' has no 'memory.dram.bandwith'; did you mean 'memory.dram.bandwidth'?"),
        ("dtype: fp16", "dtype: fp16\naxes: {units.tensor.peak.fp8: [1 TFLOP/s]}", 7, "axes.units.tensor.peak.fp8: 'chip' has no 'units.tensor.peak.fp8'; did you mean 'units.tensor.peak.fp16'?"),
        ("dtype: fp16", "dtype: fp16\naxes: {memory.dram.bandwidth: [1 TB/s, -2 TB/s]}", 7, "axes.memory.dram.bandwidth: '-2 TB/s' is not positive and finite; write a number above 0, as in '2039 GB/s'"),
        ("dtype: fp16", "dtype: fp16\naxes: {memory.dram.bandwidth: {from: 1 TB/s, to: 2 TB/s, steps: 1}}", 7, "axes.memory.dram.bandwidth.steps: 1 is out of range; write a number of at least 2"),
        ("dtype: fp16", "dtype: fp16\naxes: {memory.dram.bandwidth: [1 TB/s, 1000 GB/s]}", 7, "axes.memory.dram.bandwidth: 'memory.dram.bandwidth' takes a value twice; give different values"),
        ("dtype: fp16", "dtype: fp16\naxes: {units.tensor.runs.sparse_24.pattern: {from: 2:4, to: 1:4, steps: 2}}", 7, "axes.units.tensor.runs.sparse_24.pattern: 'units.tensor.runs.sparse_24.pattern' takes no range; write a list of values, as in '[true, false]'"),
        ("dtype: fp16", "dtype: fp16\nstore: {variables: [speed]}", 7, "store.variables.0: 'speed' is not known here; write one of 'latency', 'dense_latency', 'speedup', 'bound_share', 'execution_share', 'fits', 'footprint', 'largest_batch', 'time_to_first_token', 'time_per_output_token', 'tokens_per_s', 'area', 'power', 'energy', 'edp', 'performance_per_area', 'performance_per_watt', 'average_power', 'power_limited_latency', 'cost_usd', 'energy_per_token' or 'tokens_per_s_per_watt'"),
        ("dtype: fp16", "dtype: fp16\npatterns: ['2:4']", 7, "patterns: 'patterns' gives patterns names of your own; write those that a network runs under the network, as in 'workloads: {bert-base: {patterns: [\"2:4\"]}}'"),
        ("dtype: fp16", "dtype: fp16\nmodel: {fidelity: slow}", 7, "model.fidelity: 'slow' is not known here; write one of 'sol', 'r3', 'capacity' or 'calibrated'"),
    ],
)  # fmt: skip
def test_one_mistake_in_a_sweep(edited, folder, old, new, line, expected):
    path = edited("small.yaml", (old, new))
    assert problems(path) == [f"{path}:{line}: " + expected.replace("{folder}", str(folder))]


def test_problems_of_all_files_of_a_sweep_are_reported_at_once(edited, folder):
    edited("chip.yaml", ("1 TB/s", "1"))
    edited("net/layers.csv", ("wide,gemm,4096", "wide,gem,4096"))
    path = edited("small.yaml", ("[./chip.yaml]", "[./chip.yaml, nothing]"))
    texts = problems(path)
    assert [text.split(":")[0].removeprefix(f"{folder}/") for text in texts] == ["chip.yaml", "net/layers.csv", "small.yaml"]


def test_a_figure_that_cannot_be_drawn_ends_none_of_the_others(folder, edited, capsys, monkeypatch):
    """All files are printed, and what was not drawn is named with its reason."""
    edited("small.yaml", ("dtype: fp16", "dtype: fp16\nplots: [speedup, layers, roofline]"))

    def undrawable(*_, **__):
        raise InputError("there is nothing to draw", "draw another")

    monkeypatch.setitem(FIGURES, "layers", undrawable)
    monkeypatch.chdir(folder)
    assert entry.main(["sweep", "small.yaml"]) == 1
    printed = capsys.readouterr()
    assert printed.out.split() == [f"small/{name}" for name in ("results.nc", "speedup.png", "speedup.csv", "roofline.png", "roofline.csv")]
    assert "layers was not drawn: there is nothing to draw; draw another" in printed.err
    assert all((folder / file).exists() for file in printed.out.split())
    assert entry.main(["plot", "small/results.nc"]) == 1
    assert "small/roofline.png" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "selection", "axes", "message"),
    [
        ("capacity", "{methods: all}", "axes: {memory.l2.capacity: [1 MB, 2 MB], memory.dram.capacity: [1 GB, 2 GB]}", "not 2"),
        ("capacity", "{methods: [dense]}", "axes: {memory.l2.capacity: [1 MB, 2 MB]}", "needs a pruned variant"),
    ],
)
def test_the_needs_of_a_figure_are_checked_before_the_sweep(folder, edited, kind, selection, axes, message):
    edited("small.yaml", ("{methods: all}", selection), ("dtype: fp16", f"dtype: fp16\nplots: [{kind}]\n{axes}"))
    assert any(f"the figure '{kind}'" in problem and message in problem for problem in problems(folder / "small.yaml"))
