"""The variant of each network that a design runs: one for all objectives and constraints, compared with every combination."""

import itertools

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import dse
from dse.base import expression
from dse.base.errors import InputError
from dse.model.cost.area import area
from dse.model.cost.design import Design
from dse.model.cost.power import power, static_power
from dse.schema.search import SEARCH_RESULTS, SearchSpec
from dse.searching import run, variant_choice
from dse.searching.analysis import compute_elasticities
from dse.searching.monotonicity import expression_trend
from dse.searching.variant_choice import VariantRule
from dse.searching.variant_results import evaluate_variants
from tests.searching.search_specs import write

CHIP = """
name: chip
source: a test
units:
  tensor:
    peak: {fp16: 100 TFLOP/s}
    runs:
      gated: {pattern: 2:4, zeros: gated}
  vector:
    peak: {fp16: 10 TFLOP/s}
    runs:
      csr: {pattern: unstructured}
memory:
  dram: {capacity: 1 GB, bandwidth: 1 TB/s}
cost: {area: 400 mm^2, power: 200 W, process: 7 nm}
"""
AXES = """
  units.vector.peak.fp16: {from: 5 TFLOP/s, to: 300 TFLOP/s, scale: log}
  memory.dram.bandwidth: {from: 0.05 TB/s, to: 8 TB/s, scale: log}
"""
LAYERS = """name,kind,m,k,n
wide,gemm,4096,4096,8
"""


@pytest.fixture
def networks(folder):
    """`net`, whose sparse variant is slow at compute and cheap in energy, and `thin`, a network of another shape."""
    thin = folder / "thin"
    (thin / "variants").mkdir(parents=True)
    (thin / "workload.yaml").write_text((folder / "net" / "workload.yaml").read_text().replace("name: net", "name: thin"))
    (thin / "layers.csv").write_text(LAYERS)
    (thin / "variants" / "a.csv").write_text(
        "method,pattern,sparsity,layer,nnz\npruned,unstructured,0.8,wide,3355443\nsemi,2:4,0.5,wide,8388608\n"
    )
    (thin / "accuracy.csv").write_text(
        "method,pattern,sparsity,value,dense_value,source,kind\npruned,unstructured,0.8,75,76,a test,measured\nsemi,2:4,0.5,76,76,a test,measured\n"
    )
    return folder


def loaded(folder, search: str, both: bool = True):
    path = write(folder, search, AXES)
    text = path.read_text().replace("  ./net: {methods: all}\n", "  ./net: {methods: all}\n" + "  ./thin: {methods: all}\n" * both)
    path.write_text(text.replace("fidelity: r3, dense_fallback: true", "fidelity: sol, dense_fallback: false"))
    (folder / "chip.yaml").write_text(CHIP)
    return run.load_evaluator(path)


def figures(evaluator, chip) -> list[list[tuple[float, float]]]:
    """Latency [s] and energy [J] of every variant of every network, through the sweep's own evaluator of one design."""
    problem, leakage = evaluator.problem, float(static_power(Design(chip, base=evaluator.space.accelerator)))
    alone = []
    for variants in problem.feasible_variants.values():
        rows = []
        for variant in variants:
            layers = dse.evaluate(chip, variant, problem.batch, "fp16", **problem.options.model_dump())
            latency = float(layers.latency.sum())
            rows.append((latency, joules(chip, evaluator.space.accelerator, layers) + leakage * latency))
        alone.append(rows)
    return alone


def joules(chip, base, layers) -> float:
    """Energy of the work of the executions that `layers` name [J]."""
    from dse.model.cost.energy import ActionCounts, dynamic_energy

    design, total = Design(chip, base=base), 0.0
    for number, unit in enumerate(layers.unit.values):
        flops, gated, dense = (float(layers[name].values[number]) for name in ("flops", "gated_flops", "dense_flops"))
        counts = ActionCounts(flops - gated, gated, dense - flops, {"dram": float(layers.bytes.values[number])})
        total += float(dynamic_energy(design, unit, "fp16", counts))
    return total


def choose_singly(evaluator, design):
    """Of every combination of variants the one with the best objectives among those that meet the constraints."""
    chip, problem = evaluator.space.accelerator_at(design), evaluator.problem
    described, here = figures(evaluator, evaluator.space.accelerator), figures(evaluator, chip)
    design = Design(chip, base=evaluator.space.accelerator)
    costs = {"area": float(area(design)), "power": float(power(design))}
    best = None
    for choice in itertools.product(*(range(len(rows)) for rows in here)):
        latency, energy = (np.array([rows[c][k] for rows, c in zip(here, choice, strict=True)]) for k in (0, 1))
        base = np.array([rows[0][0] for rows in described])
        dense = np.array([rows[0][0] for rows in here])
        mean = {
            name: float(np.exp(np.log(values).mean()))
            for name, values in {
                "performance": base / latency, "speedup": dense / latency, "latency": latency, "energy": energy, "edp": energy * latency,
            }.items()
        }  # fmt: skip
        results = mean | costs
        missed = max([0.0, *(float(limit.excess(limit.expression.evaluate(results))) for limit in problem.search.bounds)])
        keys = [missed, *(sign * float(objective.evaluate(results)) for objective, sign in problem.search.objectives)]
        rounded = [float(f"{key:.10g}") for key in keys]
        if best is None or rounded < best[0]:
            best = rounded, results
    assert best is not None
    return best


SEARCHES = [
    "minimize: [energy]",
    "minimize: [edp]",
    "minimize: [energy, latency]",
    "maximize: [performance / energy]",
    "maximize: [log(speedup) - 50 * energy]",
    "maximize: [performance]\nconstraints: [energy <= 4.5 mJ, accuracy_drop <= 3]",
    "minimize: [energy]\nconstraints: [performance >= 1.4, accuracy_drop <= 3]",
    "minimize: [abs(latency - 0.0002)]",
]


@pytest.mark.parametrize("search", SEARCHES)
def test_the_variants_are_those_of_the_best_combination(networks, search):
    search = search if "accuracy_drop" in search else f"{search}\nconstraints: [accuracy_drop <= 3]"
    evaluator = loaded(networks, search)
    designs = evaluator.space.random_designs(3, np.random.default_rng(0))
    values, excess = evaluator.score(designs)
    results = evaluator.evaluate(designs)
    for number, design in enumerate(designs):
        (missed, *wanted), expected = choose_singly(evaluator, design)
        assert max(0.0, *excess[number], 0.0) == pytest.approx(missed, rel=1e-8, abs=1e-9)
        assert values[number] == pytest.approx(wanted, rel=1e-8)
        assert {name: results[name][number] for name in expected if name in results} == pytest.approx(
            {name: value for name, value in expected.items() if name in results}, rel=1e-8
        )


def test_the_variant_of_least_energy_is_not_the_fastest_one(networks):
    """On the same designs: less energy, more time, and the energy is that of the variant that is named."""
    fast, frugal = (
        loaded(networks, f"{goal}\nconstraints: [accuracy_drop <= 3]") for goal in ("minimize: [latency, energy]", "minimize: [energy]")
    )
    designs = fast.space.random_designs(64, np.random.default_rng(1))
    quick, cheap = fast.evaluate(designs), frugal.evaluate(designs)
    assert (cheap["energy"] <= quick["energy"] * (1 + 1e-12)).all()
    assert (quick["latency"] <= cheap["latency"] * (1 + 1e-12)).all()
    differs = np.flatnonzero(cheap["energy"] < quick["energy"] * (1 - 1e-6))
    assert len(differs)
    design = designs[differs[0]]
    here, chosen = figures(frugal, frugal.space.accelerator_at(design)), frugal.chosen_variants(design)
    numbers = [variants.index(chosen[name]) for name, variants in frugal.problem.feasible_variants.items()]
    energy = np.exp(np.mean([np.log(rows[number][1]) for rows, number in zip(here, numbers, strict=True)]))
    assert cheap["energy"][differs[0]] == pytest.approx(energy, rel=1e-9)


def test_gradients_follow_the_variants_that_run(networks):
    """The slope of an objective that compares variants is that of a small difference."""
    from dse.searching.archive import Archive

    evaluator = loaded(networks, "maximize: [performance / energy]\nconstraints: [accuracy_drop <= 3]")
    design = evaluator.space.random_designs(1, np.random.default_rng(2))
    archive = Archive(evaluator)
    archive.evaluate(design)
    slopes = compute_elasticities(archive)
    for number, dimension in enumerate(evaluator.space.dimensions):
        near = np.repeat(design, 2, axis=0)
        near[:, number] *= 1 - 1e-6, 1 + 1e-6
        results = evaluator.evaluate(near)
        down, up = np.log(results["performance"] / results["energy"])
        assert slopes[dimension.path] == pytest.approx((up - down) / 2e-6, rel=1e-3, abs=1e-4)


def test_many_networks_are_changed_one_at_a_time_until_nothing_is_better(networks, monkeypatch):
    evaluator = loaded(networks, "minimize: [edp]\nconstraints: [accuracy_drop <= 3]")
    designs = evaluator.space.random_designs(16, np.random.default_rng(3))
    exact = evaluator.score(designs)[0]
    monkeypatch.setattr(variant_choice, "MAX_COMBINATIONS", 0)
    np.testing.assert_allclose(evaluator.score(designs)[0], exact, rtol=1e-11)  # a product of figures of each network has no local optimum


def test_a_robust_search_runs_one_variant_in_every_sample(folder):
    """The quantile is that of one variant: of two that are fast in different samples, no design runs both."""
    robust = "robust: {spread: 0.8, quantile: 0.3, samples: 31}"
    path = write(
        folder, f"maximize: [performance]\nconstraints: [accuracy_drop <= 3]\n{robust}", "\n  memory.dram.bandwidth: [100 TB/s, 200 TB/s]\n"
    )
    evaluator = run.load_evaluator(path)
    designs = evaluator.space.grid_designs(0, 2)
    config, values = evaluator.config(designs[0]), evaluator.space.numeric_values(designs)
    samples = []
    assert evaluator.efficiency_samples is not None
    for number in range(31):
        slowdown, sampled_values = evaluator.efficiency_samples.sample(number, config.executions, values)
        samples.append(evaluate_variants(config, evaluator.space.accelerator.base, values | sampled_values, len(designs), slowdown)[0])
    each = np.quantile(evaluator.base.latency[0] / np.stack(samples), 0.3, axis=0)  # [variant, design]
    np.testing.assert_allclose(evaluator.evaluate(designs)["performance"], each.max(axis=0), rtol=1e-12)


NAMES = st.sampled_from(list(SEARCH_RESULTS))
LEAVES = st.one_of(NAMES, st.sampled_from(["2", "0.5", "-3", "0"]))
TEXTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
        st.tuples(inner, st.sampled_from(["2", "-1", "0.5"])).map(lambda parts: f"({parts[0]} ** {parts[1]})"),
        st.tuples(st.sampled_from(["log", "exp", "sqrt", "abs"]), inner).map(lambda parts: f"{parts[0]}({parts[1]})"),
        st.tuples(st.sampled_from(["minimum", "maximum"]), inner, inner).map(lambda parts: f"{parts[0]}({parts[1]}, {parts[2]})"),
        inner.map(lambda text: f"(-{text})"),
    ),
    max_leaves=5,
)


@given(TEXTS, st.floats(0.2, 5), st.floats(0.2, 5), st.floats(0.2, 5))
def test_expressions_change_only_in_the_directions_of_their_trend(text, latency, energy, cost):
    try:
        parsed = expression.parse_expression(text, SEARCH_RESULTS)
    except InputError:  # a number alone, or one that is not finite
        reject()
    known = expression_trend(parsed)

    def value(time, joules):
        results = {"latency": time, "performance": 3 / time, "speedup": 2 / time, "energy": joules, "edp": joules * time}
        results |= {"throughput": 4 / time, "batch": 4, "occupancy": 0.1 * time + 0.2 * joules}
        with np.errstate(all="ignore"):
            return float(
                np.asarray(parsed.evaluate({name: np.float64(x) for name, x in (results | {"area": cost, "power": 2 * cost}).items()}))
            )

    here = value(latency, energy)
    for directions, there in ((known.latency, value(1.1 * latency, energy)), (known.energy, value(latency, 1.1 * energy))):
        if np.isfinite([here, there]).all() and abs(there - here) > 1e-9 * abs(here):
            assert np.sign(there - here) in directions


@given(st.sampled_from(["performance", "speedup", "performance / area", "log(speedup) - 0.1 * power", "speedup ** 2 / power"]))
def test_objectives_of_speed_only_run_the_fastest_variant(text):
    assert VariantRule.of(
        SearchSpec.model_validate({"maximize": [text], "constraints": ["area <= 1 mm^2", "latency <= 1 s"]})
    ).deciding_number == (
        "latency",
        1,
    )
