"""Laws that hold for every device, network and pattern (Hypothesis), and the model against a slow one."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.base.yaml_document import parse_document
from dse.model.evaluate import evaluate
from dse.networks.layers import LayerArrays, LayerRow
from dse.schema.accelerator import Accelerator
from dse.schema.unit_run import Run
from dse.sparsity.grammar import parse
from dse.workload import Variant
from tests import oracle

# Each pattern with runs that contain it, exactly, looser or by family, and one that does not.
RUNS = {
    "unstructured": ("unstructured", "2:4"),
    "1:2": ("1:2", "2:4", "unstructured", "1:4"),
    "2:4": ("2:4", "4:8", "unstructured", "1:2"),
    "1:4": ("1:4", "2:4", "2:8", "block:4x4"),
    "1:8": ("1:8", "2:4", "1:4", "unstructured"),
    "3:6": ("3:6", "6:12", "unstructured", "2:4"),
    "block:4x4": ("block:4x4", "block:4x4*", "block:2x2", "unstructured"),
    "block:8x4": ("block:4x4*", "block:8x4", "block:4x4", "block:16x4"),
    "block:6x4": ("block:6x4", "block:3x2*", "block:4x4*"),
}
PATTERNS = tuple(RUNS)


def described(chip: dict) -> Accelerator:
    """The accelerator of a dictionary in plain numbers, through the schema, as a user's file would go."""
    lines = ["name: made", "source: a test", "units:"]
    for name, unit in chip["units"].items():
        peaks = ", ".join(f"{dtype}: {peak!r} FLOP/s" for dtype, peak in unit["peak"].items())
        lines += [f"  {name}:", f"    peak: {{{peaks}}}", "    runs:" if unit["runs"] else "    runs: {}"]
        for number, run in enumerate(unit["runs"]):
            options = [f"{key}: {value!r}" for key, value in run.items() if key != "pattern"]
            lines.append(f"      run_{number}: {{pattern: '{run['pattern']}'" + "".join(f", {option}" for option in options) + "}")
    lines += ["memory:", f"  dram: {{capacity: 1 GB, bandwidth: {chip['bandwidth']!r} B/s}}"]
    from pathlib import Path

    document = parse_document(Path("made.yaml"), "\n".join(lines))
    accelerator = document.validate(Accelerator)
    accelerator._document = document
    return accelerator


sizes = st.integers(1, 70)
peaks = st.floats(1e9, 1e15)
# Peak over bandwidth near the intensities of such layers, so that either may bind.
intensities = st.floats(0.1, 100)
optional = {"gain": st.floats(1, 16), "efficiency": st.floats(0.01, 1), "dtypes": st.sampled_from([["fp16"], ["int8"]])}


def runs_for(patterns) -> st.SearchStrategy:
    listed = sorted({run for pattern in patterns for run in RUNS[pattern]})
    return st.lists(st.fixed_dictionaries({"pattern": st.sampled_from(listed)}, optional=optional), min_size=1, max_size=3)


@st.composite
def chips_for(draw, pattern: str | None = None) -> dict:
    peak = draw(peaks)
    made = {
        name: {"peak": {"fp16": peak * draw(st.floats(0.1, 1)), "int8": peak}, "runs": draw(runs_for([pattern] if pattern else PATTERNS))}
        for name in draw(st.sampled_from([["one"], ["one", "two"]]))
    }
    return {"units": made, "bandwidth": peak / draw(intensities)}


questions = st.sampled_from(PATTERNS).flatmap(lambda pattern: st.tuples(chips_for(pattern), st.just(pattern)))
chips = chips_for()
weighted = st.fixed_dictionaries(
    {"kind": st.sampled_from(["gemm", "conv"]), "groups": st.sampled_from([1, 2, 4]), "k": sizes, "n": sizes, "count": st.integers(1, 4)},
    optional={"m": st.sampled_from([4, 8, 12, 20, 64])},
)
others = st.one_of(
    st.fixed_dictionaries({"kind": st.just("matmul"), "m": sizes, "k": sizes, "n": sizes, "count": st.integers(1, 4)}),
    st.fixed_dictionaries({"kind": st.just("elementwise"), "count": st.integers(1, 4), "inputs": sizes, "outputs": sizes}),
)
networks = st.lists(st.one_of(weighted, others), min_size=1, max_size=6)
shares = st.floats(0.01, 0.99)


def network(rows: list[dict], pattern: str, share: float) -> tuple[Variant, list[dict], list[float]]:
    """A variant of the network at one density, and the same for the oracle."""
    for row in rows:
        for key, default in (("m", 16), ("k", 1), ("n", 1), ("groups", 1)):
            row.setdefault(key, default)
        if row["kind"] == "conv":
            row.setdefault("inputs", row["groups"] * row["k"] * 3)
    named = [
        LayerRow.model_validate(
            {"name": f"layer{number}", "input_elements": row.get("inputs"), "output_elements": row.get("outputs")}
            | {key: row[key] for key in ("kind", "m", "k", "n", "count", "groups")}
        )
        for number, row in enumerate(rows)
    ]
    layers = LayerArrays.from_rows(named)
    fixed = parse(pattern).density
    density = np.where(layers.has_weights, share if fixed is None else fixed, 1.0)
    return Variant("made", layers, "made", parse(pattern), 1 - share, density), rows, list(density)


def total(chip: dict, variant: Variant, batch: int = 1, **options) -> float:
    return float(evaluate(described(chip), variant, batch, "fp16", **options).latency.sum())


def test_vectorised_equals_a_plain_loop_to_1e_12():
    """Over every option; and the examples do hold sparse and dense layers, bound by either resource."""
    seen = set()

    @settings(max_examples=400)
    @given(questions, networks, shares, st.integers(1, 64), st.booleans(), st.booleans(), st.booleans(), st.booleans())
    def holds(question, rows, share, batch, fallback, r3, overlap, im2col):
        chip, pattern = question
        variant, rows, densities = network(rows, pattern, share)
        asked = {"dense_fallback": fallback, "r3": r3, "overlap": overlap, "im2col": im2col}
        expected = oracle.latency(chip, rows, pattern, densities, batch, "fp16", **asked)
        options = {"dense_fallback": fallback, "fidelity": "r3" if r3 else "sol"}
        options |= {"overlap": "full" if overlap else "none", "activations": "im2col" if im2col else "implicit"}
        layers = evaluate(described(chip), variant, batch, "fp16", **options)
        assert float(layers.latency.sum()) == pytest.approx(expected, rel=1e-12)
        seen.update(zip(layers.bound.values == "dram", ["dense" not in name for name in layers.execution.values], strict=True))

    holds()
    assert seen == {(memory, sparse) for memory in (True, False) for sparse in (True, False)}


@given(chips, networks, st.sampled_from(PATTERNS), shares, st.floats(1, 100), st.data())
def test_more_of_anything_is_never_slower(chip, rows, pattern, share, factor, data):
    variant, *_ = network(rows, pattern, share)
    accelerator = described(chip)
    path = data.draw(st.sampled_from([p for p in accelerator.quantities() if "capacity" not in p]))
    more = accelerator.value(path) * factor
    if path.endswith("efficiency"):
        more = min(more, 1.0)
    unit = type(accelerator.quantities()[path]).unit
    better = accelerator.replace({path: f"{more!r} {unit}".strip()})
    before, after = (float(evaluate(a, variant, fidelity="r3").latency.sum()) for a in (accelerator, better))
    assert after <= before * (1 + 1e-12)


@given(chips, networks, st.sampled_from(PATTERNS), shares, st.floats(0.01, 100))
def test_scaling_all_rates_scales_the_time(chip, rows, pattern, share, factor):
    variant, *_ = network(rows, pattern, share)
    faster = {
        "bandwidth": chip["bandwidth"] * factor,
        "units": {n: u | {"peak": {d: p * factor for d, p in u["peak"].items()}} for n, u in chip["units"].items()},
    }
    assert total(faster, variant) * factor == pytest.approx(total(chip, variant), rel=1e-9)


@given(chips, networks, st.sampled_from(PATTERNS), shares, st.randoms())
def test_the_order_of_layers_means_nothing(chip, rows, pattern, share, random):
    before = total(chip, network(rows, pattern, share)[0])
    random.shuffle(rows)
    assert total(chip, network(rows, pattern, share)[0]) == pytest.approx(before, rel=1e-12)


@given(chips, networks, st.sampled_from(PATTERNS), shares)
def test_a_fallback_to_dense_is_never_slower_than_dense_or_than_none(chip, rows, pattern, share):
    variant, *_ = network(rows, pattern, share)
    dense = dataclasses.replace(variant, density=np.ones(len(variant.layers)))
    free = total(chip, variant, dense_fallback=True)
    assert free <= total(chip, variant) * (1 + 1e-12)
    assert free <= total(chip, dense) * (1 + 1e-12)


@given(chips, networks, shares)
def test_resources_that_do_not_overlap_take_at_least_as_long_and_at_most_twice(chip, rows, share):
    variant, *_ = network(rows, "unstructured", share)
    together, apart = total(chip, variant), total(chip, variant, overlap="none")
    assert together * (1 - 1e-12) <= apart <= 2 * together * (1 + 1e-12)


@given(st.lists(weighted, min_size=1, max_size=4), peaks, peaks)
def test_executing_as_a_looser_pattern_never_takes_less_compute_time(rows, peak, bandwidth):
    """At the same rate; bytes may differ."""
    chain = ("1:8", "2:8", "2:4", "unstructured")
    times = []
    for run in chain:
        chip = {"units": {"one": {"peak": {"fp16": peak}, "runs": [{"pattern": run}]}}, "bandwidth": bandwidth}
        variant, *_ = network(rows, "1:8", 1 / 8)
        layers = evaluate(described(chip), variant)
        times.append(float((layers.flops / peak).sum()))
    exact, wider, widest, free = times
    assert exact <= wider * (1 + 1e-12) <= widest * (1 + 1e-12)
    assert free <= exact * (1 + 1e-12)  # no padding at all: the same nonzeros, one by one


@given(chips, networks)
def test_density_1_is_dense(chip, rows):
    """N:N is dense by name; a network of density 1 runs dense whatever the device lists."""
    variant, rows, _ = network(rows, "unstructured", 0.5)
    full = dataclasses.replace(variant, density=np.ones(len(variant.layers)), pattern=parse("4:4"))
    expected = oracle.latency(chip, rows, "unstructured", [1.0] * len(rows), 1, "fp16")
    assert total(chip, full) == pytest.approx(expected, rel=1e-12)


@given(st.sampled_from(["csr", "bsr", "bitmask", "combinatorial"]), sizes, sizes, sizes)
def test_a_full_matrix_in_any_format_never_beats_dense(form, m, k, n):
    from dse.base.dtype import OperandDtypes
    from dse.model import traffic, work
    from dse.model.executions import Execution
    from dse.model.stored_weights import store_weights
    from dse.schema.model_options import ModelOptions

    pattern = parse("block:4x4" if form == "bsr" else "unstructured")
    almost = 1 - 1e-12  # pruned in name only
    variant, *_ = network([{"kind": "gemm", "m": m, "k": k, "n": n, "count": 1}], str(pattern), almost)
    dtype = OperandDtypes.model_validate("fp16")
    runs = (Run.model_validate({"pattern": str(p), "format": {"kind": kind}}) for p, kind in ((pattern, form), ("dense", "dense")))
    sparse, dense = (Execution("u", "r", run, ("p",), None, None, "m") for run in runs)
    stored = [store_weights(variant.layers, variant, execution, dtype.number_format("weights")) for execution in (sparse, dense)]
    flops = [work.stored_flops(variant.layers, variant, s, e)[0] for s, e in zip(stored, (sparse, dense), strict=True)]
    every = ModelOptions(inputs="all")  # nearly full rows of B are not all of them, by 1e-12
    moved = [traffic.compulsory_bytes(variant.layers, variant, s, e, dtype, every)[0] for s, e in zip(stored, (sparse, dense), strict=True)]
    assert flops[0] >= flops[1] * (1 - 1e-9)
    assert moved[0] >= moved[1] * (1 - 1e-9)
