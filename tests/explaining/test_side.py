"""Sides as users write them, and what they write wrong."""

import pytest

import dse
from dse.base.errors import InputError, ProblemCollector
from dse.calibrate.tables.measurement_set import SHIPPED_MEASUREMENTS, read_numbered_rows
from dse.explaining.explain import read_sides
from dse.explaining.settings import read_settings
from dse.explaining.side import make_side


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a100-sxm4-80gb, llama-2-7b, 2:4, batch=8", {"accelerator": "a100-sxm4-80gb", "workload": "llama-2-7b", "pattern": "2:4", "batch": "8"}),
        ("./chip.yaml, ./net, semi", {"accelerator": "./chip.yaml", "workload": "./net", "variant": "semi"}),
        ("capacity, int8 outputs=int32, 64x64x8", {"fidelity": "capacity", "dtype": "int8 outputs=int32", "shape": "64x64x8"}),
        ("capacity, int8, 64x64x8, memory.dram.bandwidth=4 TB/s, measured=1.3 ms",
         {"fidelity": "capacity", "dtype": "int8", "shape": "64x64x8", "memory.dram.bandwidth": "4 TB/s", "measured": "1.3 ms"}),
    ],
)  # fmt: skip
def test_words_without_a_key(text, settings):
    assert read_settings(text) == settings


@pytest.mark.parametrize(
    ("a", "b", "messages"),
    [
        ("a100-sxm4-80g, resnet50", None, ["'a100-sxm4-80g' is not an accelerator, a workload or a pattern; did you mean 'a100-sxm4-80gb'?"]),
        ("2:4, batch=8, resnet50", None, ["no accelerator is given; name one"]),
        ("a100-sxm4-80gb, 2:4", None, ["no network is given; name a workload"]),
        ("a100-sxm4-80gb, resnet50, 2:4, batch=0, dtype=fp12", None, ["batch:", "dtype: unknown dtype 'fp12'"]),
        ("a100-sxm4-80gb, resnet50, asp, sparsity=2", None, ["sparsity: the sparsity '2' is not a share"]),
        ("a100-sxm4-80gb, resnet50, unstructured", None, ["'unstructured' has no density of its own; add 'sparsity=0.9'"]),
        ("a100-sxm4-80gb, resnet50, magnitude_pruning", None, ["6 variants of 'resnet50' match"]),
        ("a100-sxm4-80gb, resnet50, asp, bach=8", None, ["'bach' is not a setting of a side; did you mean 'batch'?"]),
        ("a100-sxm4-80gb, resnet50, asp, a100-sxm4-80gb", None, ["gives the accelerator twice; keep one"]),
        ("a100-sxm4-80gb, resnet50, asp", "memory.dram.bandwidth=4 TB", ["'TB' is the wrong unit here"]),
        ("a100-sxm4-80gb, resnet50, asp", "measured=fast", ["measured:"]),
        ("a100-sxm4-80gb, 0x4x4, 2:4", None, ["'0x4x4' is not the shape of a product; write MxKxN"]),
        ("v100-sxm2-32gb, resnet50", "dtype=fp8", ["has no unit that computes in 'fp8'"]),
        (3, None, ["'int' is not the type of a side"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported_with_its_fix(a, b, messages):
    with pytest.raises(dse.InputError) as error:
        dse.explain(a, b)
    assert [message for message in messages if message not in str(error.value)] == []


def test_costs_need_no_network_and_times_of_one_side_no_other_quantity():
    assert dse.explain("a100-sxm4-80gb", "h100-sxm5-80gb", "area").value_a == pytest.approx(826e-6)
    with pytest.raises(dse.InputError, match="quantity: the energy of one side has nothing to be compared with; give a second side"):
        dse.explain("a100-sxm4-80gb, resnet50, asp", quantity="energy")
    with pytest.raises(dse.InputError, match="'speed' cannot be explained"):
        dse.explain("a100-sxm4-80gb, resnet50, asp", quantity="speed")


def test_a_row_of_measured_kernels_is_a_side(tmp_path):
    path = SHIPPED_MEASUREMENTS / "a100_fp16_2to4.csv"
    speedups = {line: row.dense_ms / row.time_ms for line, row in read_numbered_rows(path, ProblemCollector())[0] if row.dense_ms}
    line, speedup = next(iter(speedups.items()))
    result = dse.explain(f"{path}:{line}, calibrated")
    assert result.value_b == pytest.approx(speedup)
    assert sum(part.value for part in result.parts) == pytest.approx(result.difference)
    assert "not_predicted" in {part.key for part in result.parts}
    for text, message in ((f"{path}:99999", "has no row on line 99999; write a line from 2 to"), ("no.csv:2", "'no.csv' does not exist")):
        with pytest.raises(dse.InputError, match=message):
            dse.explain(text)


def test_what_the_second_side_leaves_open_is_as_in_the_first():
    shared = {"workload": "resnet50", "memory.dram.bandwidth": "1 TB/s", "batch": 4}
    a, b = read_sides("a100-sxm4-80gb, asp, memory.l2.capacity=20 MB", "h100-sxm5-80gb, 2:4", None, shared)
    assert b is not None
    assert [side.accelerator.value("memory.dram.bandwidth") for side in (a, b)] == [1e12, 1e12]
    assert [side.accelerator.value("memory.l2.capacity") for side in (a, b)] == [20e6, 50e6]
    assert [(str(side.variant.pattern), side.variant.method, side.batch) for side in (a, b)] == [
        ("2:4", "asp", 4),
        ("2:4", "hypothetical", 4),
    ]
    assert a.workload is b.workload


@pytest.mark.parametrize(
    ("a", "b", "dtypes"),
    [
        ("a100-sxm4-80gb", "h100-sxm5-80gb", ("fp16", "fp16")),
        ("a100-sxm4-80gb", "tpu-v5e", ("bf16", "bf16")),
        ("h100-sxm5-80gb", "s2ta-like", ("int8", "int8")),
        ("a100-sxm4-80gb", "tpu-v5e, int8", ("fp16", "int8")),  # a stated dtype leaves the other side its own
        ("tpu-v5e, int8", "a100-sxm4-80gb", ("int8", "int8")),
        ("tpu-v5e, resnet50", None, ("bf16",)),
    ],
)
def test_without_a_dtype_both_sides_compute_in_one_that_both_have(a, b, dtypes):
    sides = read_sides(a, b, None, {"workload": "resnet50"})
    assert tuple(side.dtype.compute for side in sides if side is not None) == dtypes


def test_devices_without_a_common_dtype_are_refused_with_what_they_compute_in():
    units, memory = {"array": {"peak": {"int4": "1 TOP/s"}}}, {"dram": {"bandwidth": "1 GB/s"}}
    chip = {"name": "chip", "source": "an invented chip", "units": units, "memory": memory}
    with pytest.raises(InputError, match="'chip' has no unit that computes in 'fp16'; use one of int4"):
        dse.explain("a100-sxm4-80gb", {"accelerator": dse.Accelerator.from_dict(chip)}, workload="resnet50")


def test_objects_are_sides(chip, net):
    semi = net.variant("semi")
    one, other = (
        dse.explain(chip, variant=semi, batch=8),
        dse.explain({"accelerator": chip, "workload": net, "variant": "semi", "batch": 8}),
    )
    assert one.value_b == other.value_b
    assert make_side({"accelerator": chip, "variant": semi}).dense.density.all()
    assert dse.explain(chip, chip.replace({"memory.dram.bandwidth": "4 TB/s"}), workload=net).parts[0].share == pytest.approx(1)


@pytest.mark.parametrize("method", ["asp_int8", "sr_ste", "magnitude_pruning"])
def test_a_word_that_names_a_pruning_method_is_one(method):
    assert read_settings(f"a100-sxm4-80gb, resnet50, {method}")["variant"] == method


@pytest.mark.parametrize(("word", "name"), [("resnet5", "resnet50"), ("rtx490", "rtx4090")])
def test_a_misspelt_name_is_no_pruning_method(word, name):
    with pytest.raises(InputError, match=f"did you mean '{name}'"):
        read_settings(word)


def test_shared_inputs_hold_for_sides_that_name_their_networks():
    """They are not lost with the inputs of the other side's network, and an unknown one is an error."""
    written = dse.explain("a100-sxm4-80gb, llama-2-7b, phase=decode", "h100-sxm5-80gb, llama-2-7b, phase=decode")
    assert dse.explain("a100-sxm4-80gb, llama-2-7b", "h100-sxm5-80gb, llama-2-7b", phase="decode").value_b == written.value_b
    assert dse.explain("a100-sxm4-80gb, llama-2-7b, phase=decode", "h100-sxm5-80gb, llama-2-7b").value_b != written.value_b
    with pytest.raises(dse.InputError, match="'phse' is not a setting of a side; did you mean 'phase'"):
        dse.explain("a100-sxm4-80gb, llama-2-7b", phse="decode")
