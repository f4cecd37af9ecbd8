"""Explanations of two sides: parts add up, one number alone has all of the difference, exchanging the sides negates every part."""

from dataclasses import replace

import numpy as np
import pytest

import dse
from dse.explaining.compare import compare_sides
from dse.explaining.explain import explain_sides
from dse.explaining.factors import list_factors
from dse.explaining.mixtures import MixtureEvaluator
from dse.explaining.settings import read_settings
from dse.explaining.side import Side, make_side
from dse.model.cost.design import Design
from dse.model.cost.power import static_power

NUMBERS = {  # path: a range of values, and their unit
    "units.tensor.peak.fp16": (10, 1000, "TFLOP/s"),
    "units.vector.peak.fp16": (1, 100, "TFLOP/s"),
    "units.tensor.runs.sparse_24.gain": (1, 4, ""),
    "units.vector.runs.csr.efficiency": (0.1, 1, ""),
    "memory.dram.bandwidth": (0.1, 10, "TB/s"),
    "memory.l2.capacity": (1, 100, "MB"),
}


@pytest.fixture
def side(chip, net):
    def make(numbers=None, variant="semi", **settings):
        accelerator = chip.replace(numbers or {})
        return make_side({"accelerator": accelerator, "workload": net, "variant": variant, "fidelity": "sol", **settings})

    return make


def random_side(side, generator: np.random.Generator, quantity: str) -> Side:
    chosen = [path for path in NUMBERS if generator.random() < 0.6]
    numbers = {path: f"{generator.uniform(*NUMBERS[path][:2]):.4g} {NUMBERS[path][2]}".strip() for path in chosen}
    variant = generator.choice(["semi", "dense"]) if quantity != "speedup" else "semi"
    settings = {"batch": int(generator.choice([1, 8])), "fidelity": str(generator.choice(["sol", "r3", "capacity"]))}
    return side(numbers, str(variant), **settings)


@pytest.mark.parametrize(("quantity", "pairs", "seed"), [("latency", 10, 0), ("speedup", 10, 1), ("latency", 10, 2)])
def test_parts_add_up_and_negate_on_random_pairs(side, quantity, pairs, seed):
    generator = np.random.default_rng(seed)
    for number in range(pairs):
        a, b = (random_side(side, generator, quantity) for _ in range(2))
        there = compare_sides(a, b, quantity)
        assert sum(part.value for part in there.parts) == pytest.approx(there.value_b - there.value_a, rel=1e-9, abs=1e-9 * there.value_a)
        if number % 20 == 0:
            back = {part.key: part.value for part in compare_sides(b, a, quantity).parts}
            assert {part.key: -part.value for part in there.parts} == pytest.approx(back, rel=1e-9, abs=1e-12 * there.value_a)


@pytest.mark.parametrize("quantity", ["latency", "speedup", "energy", "area", "power"])
@pytest.mark.parametrize("path", ["units.tensor.peak.fp16", "memory.dram.bandwidth"])
def test_a_pair_that_differs_in_one_number_gives_it_all(chip, net, quantity, path):
    whole = chip.replace({"cost.process": "7 nm"})
    other = whole.replace({path: "200 TFLOP/s" if "peak" in path else "0.2 TB/s"})
    variant = "semi" if quantity in ("latency", "speedup", "energy") else "dense"
    result = dse.explain(whole, other, quantity, workload=net, variant=variant)
    assert {part.key for part in result.parts} <= {path}
    assert [part.share for part in result.parts] == pytest.approx([1.0] * (result.value_a != result.value_b))


def test_the_ends_are_those_of_evaluate(side):
    a, b = side({"memory.dram.bandwidth": "2 TB/s"}, batch=8), side({}, "dense", fidelity="capacity")
    result = compare_sides(a, b, "latency")
    for each, value in ((a, result.value_a), (b, result.value_b)):
        options = {"fidelity": each.options.fidelity}
        latency = dse.evaluate(each.accelerator, each.variant, each.batch, "fp16", **options).latency
        assert value == pytest.approx(float(latency.sum()), rel=1e-12)
    assert sum(row.a for row in result.groups) == pytest.approx(result.value_a)
    assert sum(row.b for row in result.resources) == pytest.approx(result.value_b)
    assert {part.key for part in result.parts} <= {"memory.dram.bandwidth", "variant", "batch", "fidelity.traffic"}


def test_a_part_of_a_speedup_says_how_much_is_due_to_the_dense_baseline(side):
    result = compare_sides(side(), side({"units.tensor.peak.fp16": "400 TFLOP/s"}), "speedup")
    (part,) = result.parts
    dense, sparse = ([float(dse.evaluate(s.accelerator, v).latency.sum()) for s in (side(), side({"units.tensor.peak.fp16": "400 TFLOP/s"}))]
                     for v in (side().dense, side().variant))  # fmt: skip
    through_dense = (dense[1] - dense[0]) * (1 / sparse[0] + 1 / sparse[1]) / 2
    assert part.through_dense == pytest.approx(through_dense)


@pytest.mark.parametrize("devices", [("a100-sxm4-80gb", "h100-sxm5-80gb"), ("a10", "h100-pcie-80gb"), ("b200-sxm-180gb", "l4")])
def test_what_the_model_does_not_read_does_not_change_a_result(chip, net, devices):
    """Every difference that is left out changes neither latency nor energy when it alone is taken from the other side."""
    first, second = map(dse.load_accelerator, devices)
    for fidelity in ("sol", "r3", "capacity", "calibrated"):
        settings = {"workload": net, "variant": "semi", "fidelity": fidelity}
        a, b = (make_side({"accelerator": accelerator, **settings}) for accelerator in (first, second))
        evaluator = MixtureEvaluator(a, b, list_factors(a, b), "speedup")
        unread = [number for number, factor in enumerate(evaluator.factors) if not evaluator.relevance.may_matter(factor)]
        assert unread
        masks = np.zeros((1 + len(unread), len(evaluator.factors)), bool)
        masks[np.arange(1, 1 + len(unread)), unread] = True
        results = evaluator.evaluate(masks)
        assert np.ptp(results.value) == 0
        assert results.dense is not None
        assert np.ptp(results.dense) == 0
        assert {"memory.dram.rate", "units.tensor_core.clock"} <= {evaluator.factors[n].key for n in unread}


@pytest.mark.parametrize("quantity", ["latency", "energy", "area", "power"])
def test_devices_with_other_units_and_memories_are_compared(quantity):
    result = dse.explain("a100-sxm4-80gb", "mi250x", quantity, workload="bert-base", dtype="bf16")
    assert sum(part.value for part in result.parts) == pytest.approx(result.difference, rel=1e-9)
    assert "memory.dram.bandwidth" in {part.key for part in result.parts}


def test_calibrated_devices_differ_by_their_kernels():
    result = dse.explain("a100-sxm4-80gb", "h100-sxm5-80gb", workload="bert-base", fidelity="calibrated", batch=8)
    assert sum(part.value for part in result.parts) == pytest.approx(result.difference, rel=1e-9)
    assert "device" in {part.key for part in result.parts}


def test_dtypes_that_one_device_lacks_are_one_factor_with_it():
    result = dse.explain("a100-sxm4-80gb, fp16", "h100-sxm5-80gb, fp8", workload="resnet50", batch=32)
    assert [part.key for part in result.parts] == ["accelerator"]
    assert result.parts[0].share == pytest.approx(1)


@pytest.mark.parametrize("quantity", ["latency", "energy"])
def test_a_dtype_that_belongs_to_the_accelerator_is_exchanged_with_it(quantity):
    """A V100 has no int8 in its matrix unit, so that its dtype belongs to it: exchanging the sides negates every part."""
    a, b = "v100-sxm2-32gb, 4096x4096x64, fp16, batch=8", "cloud-ai-100-ultra, 4096x4096x64, int8, batch=256"
    there, back = dse.explain(a, b, quantity), dse.explain(b, a, quantity)
    parts, negated = ({part.key: sign * part.value for part in each.parts} for each, sign in ((there, 1), (back, -1)))
    assert "accelerator" in parts
    assert parts == pytest.approx(negated, rel=1e-9)


def test_inputs_of_a_network_are_factors():
    result = dse.explain("a100-sxm4-80gb, llama-2-7b, phase=decode, sequence=1024", "sequence=2048, batch=4")
    assert {part.key for part in result.parts} == {"sequence", "batch"}
    assert sum(part.value for part in result.parts) == pytest.approx(result.difference, rel=1e-9)


def test_different_networks_are_one_factor():
    result = dse.explain("a100-sxm4-80gb, bert-base", "bert-large, batch=4")
    assert {part.key for part in result.parts} == {"network", "batch"}
    assert sum(row.b for row in result.groups) == pytest.approx(result.value_b)


def test_a_measurement_has_a_part_of_its_own(side):
    predicted = float(dse.evaluate(side().accelerator, side().variant).latency.sum())
    result = explain_sides(side(), side({"memory.dram.bandwidth": "2 TB/s"}, measured=2 * predicted))
    parts = {part.key: part.value for part in result.parts}
    assert result.value_b == 2 * predicted
    assert parts["not_predicted"] + parts["memory.dram.bandwidth"] == pytest.approx(predicted)


@pytest.mark.parametrize("fidelity", ["sol", "r3", "capacity", "calibrated"])
@pytest.mark.parametrize("quantity", ["latency", "energy"])
def test_mixtures_equal_designs_with_replaced_numbers(fidelity, quantity):
    """Every mixture of two variations of one device is the design that `Accelerator.replace` makes, evaluated on its own."""
    device = dse.load_accelerator("a100-sxm4-80gb")
    numbers = {
        "units.tensor_core.peak.fp16": "500 TFLOP/s", "memory.dram.bandwidth": "3 TB/s", "memory.l2.capacity": "10 MB",
        "units.tensor_core.runs.sparse_24.gain": 3, "units.tensor_core.processors": 64, "units.tensor_core.runs.sparse_24.efficiency": 0.4,
    }  # fmt: skip
    settings = {"workload": "resnet50", "variant": "asp", "fidelity": fidelity, "batch": 4}
    a, b = (make_side({"accelerator": accelerator, **settings}) for accelerator in (device, device.replace(numbers)))
    evaluator = MixtureEvaluator(a, b, list_factors(a, b), quantity)
    masks = np.random.default_rng(0).random((12, len(evaluator.factors))) < 0.5
    for mask, value in zip(masks, evaluator.evaluate(masks).value, strict=True):
        chosen = {factor.key: numbers[factor.key] for factor, is_on in zip(evaluator.factors, mask, strict=True) if is_on}
        mixed = device.replace(chosen)
        layers = dse.evaluate(mixed, a.variant, 4, "fp16", fidelity=fidelity)
        expected = float(layers[quantity].sum())
        if quantity == "energy":  # as in sweeps, leakage is anchored to the published area of the device
            static = [static_power(Design(mixed, base=base)) for base in (None, device)]
            expected += (static[1] - static[0]) * float(layers.latency.sum())
        assert value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("network", ["resnet50, asp, batch=32", "bert-base, 2:4, batch=8", "llama-2-7b, 2:4, phase=decode"])
@pytest.mark.parametrize(("low", "high"), [("sol", "calibrated"), ("capacity", "calibrated"), ("sol", "capacity")])
def test_a_fidelity_without_all_of_its_parts_is_the_lower_one(network, low, high):
    a, b = (make_side(read_settings(f"a100-sxm4-80gb, {network}, {fidelity}")) for fidelity in (low, high))
    evaluator = MixtureEvaluator(a, b, list_factors(a, b), "latency")
    stripped = replace(b, without=frozenset(factor.key for factor in evaluator.factors))
    assert {factor.key.partition(".")[0] for factor in evaluator.factors} == {"fidelity"}
    for of_stripped, of_low in zip(evaluator.network_latencies(stripped, {}), evaluator.network_latencies(a, {}), strict=True):
        assert of_stripped == pytest.approx(of_low, rel=1e-12)


def test_a_measurement_against_the_speed_of_light_has_the_parts_of_the_calibrated_fidelity():
    result = dse.explain("a100-sxm4-80gb, 4096x4096x512", "calibrated, measured=100 us")
    assert {part.key for part in result.parts} == {"fidelity.efficiency", "fidelity.overhead", "fidelity.overlap", "not_predicted"}
    assert sum(part.value for part in result.parts) == pytest.approx(100e-6 - result.value_a)
    assert result.value_b == pytest.approx(100e-6)


def test_costs_follow_the_channels_of_a_memory_and_no_number_that_they_do_not_depend_on():
    explanation = dse.explain("l20, resnet50, dense", "a100-sxm4-80gb, resnet50, dense", "area")
    factors = {part.key for part in explanation.parts}
    assert {"memory.dram.width", "memory.dram.rate"} <= factors
    assert not [factor for factor in factors if factor.endswith((".processors", ".scratchpad", ".efficiency"))]
