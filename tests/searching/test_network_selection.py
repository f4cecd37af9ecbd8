"""Results of one network or input: `latency[bert-base/decode]` in objectives and constraints."""

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.base.expression import parse_expression
from dse.searching import run
from tests.searching.search_specs import write

TWO = (
    "./net: {methods: all}",
    "./net: {methods: all}\n  llama-3.2-1b: {methods: [dense], inputs: {phase: [prefill, decode], sequence: 64}}",
)
PREFILL, DECODE = (f"llama-3.2-1b (phase={phase}, sequence=64)" for phase in ("prefill", "decode"))


def specification(folder, search: str, axes: str = "\n  memory.dram.bandwidth: [1 TB/s, 2 TB/s]\n"):
    path = write(folder, search, axes)
    path.write_text(path.read_text().replace(*TWO).replace("capacity: 1 GB", "capacity: 4 GB"))
    return path


@pytest.mark.parametrize(
    ("name", "networks"),
    [
        ("./net", [0]),
        ("llama-3.2-1b/prefill", [1]),
        ("llama-3.2-1b/phase=decode", [2]),
        ("llama-3.2-1b", [1, 2]),
        ("llama-3.2-1b/sequence=64/decode", [2]),
        (PREFILL, [1]),
    ],
)
def test_brackets_select_a_workload_or_its_inputs(folder, name, networks):
    evaluator = run.load_evaluator(specification(folder, f"minimize: ['latency[{name}]']\nconstraints: ['throughput[{name}] >= 1 /s']"))
    results = evaluator.evaluate_networks(evaluator.space.grid_designs(0, 2))
    selected = results.each["latency"][networks]
    np.testing.assert_allclose(results.combined[f"latency[{name}]"], np.exp(np.log(selected).mean(axis=0)), rtol=1e-12)
    np.testing.assert_allclose(results.combined[f"throughput[{name}]"] * results.combined[f"latency[{name}]"], 4, rtol=1e-12)


def test_a_limit_on_one_phase_does_not_limit_the_other(folder):
    """Decoding is bound by bandwidth, so a limit on its latency excludes the lower bandwidth."""
    evaluator = run.load_evaluator(specification(folder, "maximize: [performance]\nconstraints: [area <= 900 mm^2]"))
    each = evaluator.evaluate_networks(evaluator.space.grid_designs(0, 2)).each["latency"]
    limit = float(np.sqrt(each[2, 0] * each[2, 1]))
    assert each[1].max() > limit
    path = specification(folder, f"constraints: ['latency[llama-3.2-1b/decode] <= {limit * 1e3} ms']\nsampler: exhaustive")
    front = dse.search(path)
    assert front.attrs["feasible"] == 1
    assert float(front["memory.dram.bandwidth"][0]) == 2e12
    assert front["latency[llama-3.2-1b, decode]"].attrs["units"] == "s"


def test_what_fits_is_what_a_sweep_says(folder):
    axes = "\n  memory.dram.capacity: [0.1 GB, 1 GB, 2 GB, 2.4 GB, 2.5 GB, 2.6 GB, 3 GB, 4 GB]\n"
    evaluator = run.load_evaluator(specification(folder, "constraints: ['fits[llama-3.2-1b/decode]']", axes))
    designs = evaluator.space.grid_designs()
    meets = np.all(evaluator.score(designs)[1] <= 0, axis=1)
    text = specification(folder, "maximize: [performance]", axes).read_text().partition("search:")[0]
    path = folder / "sweep.yaml"
    path.write_text(
        text.replace("./net: {methods: all}", "").replace("[prefill, decode]", "decode") + "store: {variables: [latency, fits]}\n"
    )
    swept = dse.sweep(path).fits.values.ravel()
    assert list(meets) == list(swept)
    assert 0 < meets.sum() < len(meets)


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ("latency[lama] <= 1 ms", "'lama' in 'latency\\[lama\\]' is not a workload of this search"),
        ("latency[llama-3.2-1b/decod] <= 1 ms", "'decod' in .* is not an input of 'llama-3.2-1b' in this search; did you mean 'decode'"),
        ("latency[./net/decode] <= 1 ms", "it has no inputs; name the workload alone"),
        ("area[./net] <= 1 mm^2", "'area\\[./net\\]' is not a result of a network"),
        ("latency[] <= 1 ms", "is not a result of a network"),
        ("speed[./net] <= 1", "'speed' in 'speed\\[./net\\]' is not a result"),
        ("latency[./net] <= 1 mm^2", "is not a valid bound"),
        ("throughput[./net] >= fast", "write a number per second, as in '1000 tokens/s' or '20 ktokens/s'"),
        ("fits[lama]", "'lama' in 'occupancy\\[lama\\]' is not a workload of this search"),
    ],
)
def test_errors_name_what_is_unknown(folder, constraint, message):
    with pytest.raises(InputError, match=message) as raised:
        run.load_evaluator(specification(folder, f"constraints: ['{constraint}']"))
    assert all(problem.line for problem in raised.value.problems)


def test_brackets_are_part_of_a_name():
    expression = parse_expression("log(latency[a-b/c (d=1)]) - 2 * latency[ x ]", ["latency"], ["latency"])
    assert expression.names == ["latency[a-b/c (d=1)]", "latency[x]"]
    assert expression.evaluate({"latency[a-b/c (d=1)]": np.e, "latency[x]": 3.0}) == pytest.approx(-5)
