"""Results of a network at a batch size or in a dtype of its own: `latency[net, batch=8, dtype=int8]`."""

import jax
import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.schema.run_settings import RunSettings, split_run_settings
from dse.searching import run
from dse.searching.evaluator import Evaluator
from dse.searching.local_search import compile_derivatives, variants_of
from dse.searching.report import best_designs_table
from dse.searching.run import run_search
from tests.searching.search_specs import write

LIMITS = {  # that every design meets
    "performance": ">= 1e-9", "speedup": ">= 1e-9", "latency": "<= 1e6 s", "energy": "<= 1e9 J", "edp": "<= 1e9", "throughput": ">= 1e-9",
    "occupancy": "<= 1e9",
}  # fmt: skip
SIZES, DTYPES = (4, 1, 8), ("fp16", "int8 outputs=int32")


def specification(folder, search: str, sizes=SIZES, dtypes=DTYPES[:1], networks=("./net",)):
    path = write(folder, search, "\n  memory.dram.bandwidth: [0.5 TB/s, 2 TB/s]\n  units.tensor.runs.sparse_24.enabled: [true, false]\n")
    text = path.read_text().replace("batch: [4]", f"batch: {list(sizes)}").replace("dtype: fp16", f"dtype: {list(dtypes)}")
    llama = "llama-3.2-1b: {methods: [dense], inputs: {phase: [prefill, decode], sequence: 64}}"
    listed = {"./net": "./net: {methods: all}", "llama": llama}
    path.write_text(text.replace("./net: {methods: all}", "\n  ".join(listed[name] for name in networks)))
    chip = folder / "chip.yaml"
    chip.write_text(chip.read_text().replace("fp16: 100 TFLOP/s", "fp16: 100 TFLOP/s, int8: 200 TFLOP/s"))
    return path


def evaluate(folder, search: str, *options, **named) -> tuple[Evaluator, dict[str, np.ndarray]]:
    evaluator = run.load_evaluator(specification(folder, search, *options, **named))
    return evaluator, evaluator.evaluate(evaluator.space.grid_designs())


def limits(brackets: str) -> str:
    return ", ".join(f"'{result}{brackets} {limit}'" for result, limit in LIMITS.items())


@pytest.mark.parametrize("over_workloads", ["geometric_mean", "worst"])
def test_results_at_a_batch_size_are_those_of_designs_that_have_it(folder, over_workloads):
    """Of a design that has this batch size itself, and of a search that lists no other."""
    common = f"maximize: [throughput]\nover_workloads: {over_workloads}\nconstraints: [{limits('')}, {limits('[batch=8]')}]"
    evaluator, results = evaluate(folder, common, networks=("./net", "llama"))
    sizes = evaluator.space.decode(evaluator.space.grid_designs())["batch"]
    assert len(evaluator.problem.own_networks) == 3
    for name in LIMITS:
        fixed, own = results[f"{name}[batch=8]"], results[name]
        np.testing.assert_allclose(fixed[sizes == 8], own[sizes == 8], rtol=1e-12, err_msg=name)
        np.testing.assert_allclose(fixed[sizes == 1], own[sizes == 8], rtol=1e-12, err_msg=name)
    assert (results["latency[batch=8]"] > results["latency"])[sizes == 1].all()


def test_results_in_a_dtype_are_those_of_designs_that_have_it(folder):
    search = f"maximize: [throughput]\nconstraints: [{limits('')}, {limits('[./net, dtype=int8 outputs=int32]')}]"
    evaluator, results = evaluate(folder, search, (4, 1), DTYPES)
    columns = evaluator.space.decode(evaluator.space.grid_designs())
    is_int8 = columns["dtype"] == columns["dtype"][-1]
    assert is_int8.sum() * 2 == len(is_int8)
    for name in LIMITS:
        fixed = results[f"{name}[./net, dtype=int8 outputs=int32]"]
        for size in (4, 1):  # the batch size is still that of the design
            at_size = columns["batch"] == size
            np.testing.assert_allclose(fixed[at_size & is_int8], results[name][at_size & is_int8], rtol=1e-12, err_msg=name)
            np.testing.assert_allclose(fixed[at_size & ~is_int8], fixed[at_size & is_int8], rtol=1e-12, err_msg=name)


def test_results_without_brackets_do_not_depend_on_those_with_them(folder):
    search = "maximize: [performance]\nconstraints: ['latency <= 1 s', 'energy <= 1e9 J'"
    _, alone = evaluate(folder, search + "]")
    _, together = evaluate(folder, search + ", 'latency[./net, batch=64] <= 1 s', 'energy[dtype=int8] <= 1e9 J']")
    for name, values in alone.items():
        np.testing.assert_allclose(together[name], values, rtol=1e-12)


def test_a_search_chooses_no_batch_size_if_every_result_names_one(folder):
    search = "maximize: ['throughput[./net, batch=8]']\nconstraints: ['latency[batch=1] <= 1 s', area <= 900 mm^2]"
    evaluator, _ = evaluate(folder, search)
    assert [dimension.path for dimension in evaluator.space.dimensions] == ["memory.dram.bandwidth", "units.tensor.runs.sparse_24.enabled"]
    evaluator, _ = evaluate(folder, search.replace("1 s", "1 s', 'batch >= 1"))
    assert [dimension.path for dimension in evaluator.space.dimensions][-1] == "batch"


def test_a_limit_at_one_batch_size_excludes_designs_and_is_reported(folder):
    search = "maximize: ['throughput[./net, batch=8]']\nconstraints: ['latency[./net, batch=1, dtype=int8] <= {limit} ms', 'fits[batch=8]']"
    _, results = evaluate(folder, search.format(limit=1e6))
    latency = results["latency[./net, batch=1, dtype=int8]"]
    limit = float(np.sqrt(latency.min() * latency.max()))
    path = specification(folder, search.format(limit=limit * 1e3) + "\nsampler: exhaustive")
    with pytest.warns(dse.ModelWarning, match="accuracies do not depend on the dtype"):
        front = dse.search(path)
    assert front.attrs["feasible"] == (latency <= limit).sum() < len(latency)
    assert (front["latency[., net, batch=1, dtype=int8]"] <= limit).all()
    with pytest.warns(dse.ModelWarning):
        archive = run_search(run.load_evaluator(path), "test", None, False, False, False)
    table = best_designs_table(archive)
    assert "./net, batch=1, dtype=int8: " in table.states[0]
    assert "./net, batch=8: " in table.networks[0]


def test_derivatives_are_finite_differences(folder):
    search = "maximize: ['throughput[batch=8] / latency[batch=1, dtype=int8]']\nconstraints: ['latency[batch=64] <= 1 s']"
    path = specification(folder, search)
    path.write_text(path.read_text().replace("[0.5 TB/s, 2 TB/s]", "{from: 0.5 TB/s, to: 2 TB/s}"))
    evaluator, step = run.load_evaluator(path), 1e-3
    designs = np.array([[1e12 * np.exp(sign * step), 0.0] for sign in (0, -1, 1)])
    with jax.enable_x64(True):
        derivatives = compile_derivatives(evaluator, evaluator.config(designs[0]))
        values, jacobian = (np.asarray(each) for each in derivatives(np.log(designs[0, :1]), variants_of(evaluator, designs[0])))
    scores = np.concatenate(evaluator.score(designs), axis=1)
    np.testing.assert_allclose(values, scores[0], rtol=1e-11)
    np.testing.assert_allclose(jacobian[:, 0], (scores[2] - scores[1]) / (2 * step), rtol=1e-3)
    assert (jacobian[:, 0] != 0).all()


@pytest.mark.parametrize(
    ("text", "network", "settings"),
    [
        ("net", "net", ""),
        ("net, batch=8", "net", "batch=8"),
        ("batch = 8", "", "batch=8"),
        ("net (phase=decode, sequence=64),dtype=fp8 outputs=bf16, batch=2", "net (phase=decode, sequence=64)", "batch=2, dtype=fp8 outputs=bf16"),
        ("net/phase=decode, dtype=bf16 cache=fp8@2:4", "net/phase=decode", "dtype=bf16 cache=fp8@2:4"),
    ],
)  # fmt: skip
def test_settings_follow_commas(text, network, settings):
    assert split_run_settings(text)[0] == network
    assert str(split_run_settings(text)[1]) == settings
    assert split_run_settings(settings) == ("", split_run_settings(text)[1])
    assert split_run_settings("") == ("", RunSettings())


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ("latency[net, batch=8] <= 1 ms", "'net' in .* is not a workload of this search"),
        ("latency[./net, batch=0] <= 1 ms", "'0' is not a valid batch size; write a whole number from 1"),
        ("latency[./net, batch=8.5] <= 1 ms", "'8.5' is not a valid batch size"),
        ("latency[./net, batch=8, batch=4] <= 1 ms", "'batch' is given twice"),
        ("latency[./net, bathc=8] <= 1 ms", "'bathc' in .* is neither a batch size nor a dtype; did you mean 'batch'"),
        ("latency[./net/batch=8] <= 1 ms", "'batch=8' in .* follows '/'; write a comma before it"),
        ("latency[./net, phase=decode] <= 1 ms", "an input of a network follows '/'"),
        ("latency[./net, dtype=fp99] <= 1 ms", "'fp99'"),
        ("latency[./net, dtype=fp64] <= 1 ms", "'chip' has no unit that computes in 'fp64'"),
        ("area[batch=8] <= 1 mm^2", "'area\\[batch=8\\]' is not a result of a network"),
        ("batch[batch=8] <= 1", "is not a result of a network"),
    ],
)
def test_errors_say_what_to_write(folder, constraint, message):
    with pytest.raises(InputError, match=message) as raised:
        run.load_evaluator(specification(folder, f"constraints: ['{constraint}']"))
    assert all(problem.line for problem in raised.value.problems)


def test_all_errors_in_brackets_are_reported_at_once(folder):
    with pytest.raises(InputError) as raised:
        run.load_evaluator(specification(folder, "maximize: ['throughput[batch=x]']\nconstraints: ['latency[dtype=y] <= 1 s']"))
    assert len(raised.value.problems) == 2
