"""Links and macro-parameters of a description: values, order, sources and error texts."""

import pytest

import dse
from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError
from dse.html_report.layer_details import decisive_paths
from dse.schema.accelerator import Accelerator

MACRO = {
    "name": "macro",
    "source": "a test",
    "units": {
        "matrix": {
            "processors": 4,
            "clock": "1.5 GHz",
            "macs": {"int8": 2048, "fp16": {"link": "units.matrix.macs.int8 / 2"}},
            "peak": {"fp32": {"link": "units.matrix.peak.fp16 / 8", "source": "guess"}},
        }
    },
    "memory": {
        "dram": {"channels": 8, "width": "64 bit", "rate": "8 GT/s", "channel_capacity": "2 GB"},
        "sram": {"channels": {"link": "units.matrix.processors"}, "channel_capacity": "1 MB", "width": "512 bit", "rate": "1 GT/s"},
    },
}
DERIVED = {  # by hand
    "units.matrix.macs.fp16": 1024,
    "units.matrix.peak.int8": 2 * 2048 * 4 * 1.5e9,
    "units.matrix.peak.fp16": 2 * 1024 * 4 * 1.5e9,
    "units.matrix.peak.fp32": 2 * 1024 * 4 * 1.5e9 / 8,
    "memory.dram.bandwidth": 8 * 8 * 8e9,
    "memory.dram.capacity": 16e9,
    "memory.sram.channels": 4,
    "memory.sram.capacity": 4e6,
    "memory.sram.bandwidth": 4 * 64 * 1e9,
}


def test_macro_parameters_give_peaks_bandwidths_and_capacities():
    chip = Accelerator.from_dict(MACRO)
    assert {path: chip.value(path) for path in DERIVED} == pytest.approx(DERIVED, rel=1e-14)
    assert set(chip.links.formulas) == set(DERIVED)
    assert {chip.at(path).kind for path in DERIVED} == {"derived"}
    assert chip.at("units.matrix.peak.fp32").source == "= units.matrix.peak.fp16 / 8; guess"
    assert chip.at("units.matrix.peak.int8").text == "24.58 TFLOP/s"
    assert "= memory.dram.channels * memory.dram.width * memory.dram.rate" in chip._repr_html_()


def test_a_replaced_number_changes_all_that_follow_from_it_and_none_that_is_replaced_too():
    chip = Accelerator.from_dict(MACRO).replace({"units.matrix.clock": "3 GHz", "units.matrix.peak.fp16": "1 TFLOP/s"})
    assert chip.value("units.matrix.peak.int8") == pytest.approx(2 * 2048 * 4 * 3e9)
    assert chip.value("units.matrix.peak.fp16") == 1e12
    assert chip.value("units.matrix.peak.fp32") == 1e12 / 8


def test_a_description_with_replaced_numbers_is_read_back_as_it_is():
    chip = Accelerator.from_dict(MACRO).replace({"units.matrix.peak.fp16": "1 TFLOP/s", "memory.dram.bandwidth": "100 GB/s"})
    again = Accelerator.from_dict(chip.to_dict())
    assert {path: q.value for path, q in again.quantities().items()} == {path: q.value for path, q in chip.quantities().items()}


def test_both_forms_may_be_given_if_they_agree_to_one_percent():
    agreeing = {**MACRO, "memory": {**MACRO["memory"], "dram": {**MACRO["memory"]["dram"], "bandwidth": "510 GB/s"}}}
    chip = Accelerator.from_dict(agreeing)
    assert chip.value("memory.dram.bandwidth") == pytest.approx(512e9)
    assert chip.replace({"memory.dram.channels": 4}).value("memory.dram.bandwidth") == pytest.approx(256e9)
    agreeing["memory"]["dram"]["bandwidth"] = "600 GB/s"
    with pytest.raises(InputError) as caught:
        Accelerator.from_dict(agreeing)
    assert str(caught.value) == (
        "memory.dram.bandwidth: stated as 600 GB/s, but memory.dram.channels * memory.dram.width * memory.dram.rate is 512 GB/s; "
        "remove one of them, or make them agree to 1%"
    )


def with_dram(**dram):
    return {**MACRO, "memory": {"dram": dram}}


def test_a_bandwidth_next_to_channels_of_a_technology_agrees_with_them_or_is_an_error():
    """A channel of LPDDR5X has 16 bit at 8.533 GT/s: 17.066 GB/s, by hand."""
    agreeing = with_dram(technology="lpddr5x", channels=16, bandwidth="273 GB/s")
    chip = Accelerator.from_dict(agreeing)
    assert chip.replace({"memory.dram.channels": 32}).value("memory.dram.bandwidth") == pytest.approx(32 * 17.066e9)
    set_directly = chip.replace({"memory.dram.bandwidth": "100 GB/s"})
    assert Accelerator.from_dict(set_directly.to_dict()).value("memory.dram.bandwidth") == 100e9
    with pytest.raises(InputError) as caught:
        Accelerator.from_dict(with_dram(technology="lpddr5x", channels=16, bandwidth="100 GB/s"))
    assert str(caught.value) == (
        "memory.dram.bandwidth: stated as 100 GB/s, but memory.dram.channels * memory.dram.width * memory.dram.rate is 273.1 GB/s; "
        "remove 'bandwidth' to take that of the channels of lpddr5x, or remove 'channels' to keep the one that is stated"
    )


def test_the_usual_capacity_of_a_technology_leaves_a_stated_capacity_alone():
    chip = Accelerator.from_dict(with_dram(technology="lpddr5x", channels=16, capacity="5 GB"))
    assert chip.value("memory.dram.capacity") == 5e9


def test_all_problems_of_links_are_reported_at_once_with_file_and_line(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("""name: bad
source: a test
units:
  matrix:
    peak:
      fp32: {link: units.matrix.peak.tf32}
      tf32: {link: units.matrix.peak.fp32 * 2}
      bf16: {link: units.matrix.clock * 2}
      fp8: {link: units.matrx.peak.int8}
      int8: {link: units.matrix.peak.fp16, value: 1 TOP/s}
      fp16: {link: 1 TFLOP/s - 2 TFLOP/s}
    clock: 1 GHz
  vector:
    macs: {fp32: 2}
memory:
  dram: {channels: 0, width: 64 bit, rate: 8.533 GT/s}
  sram: {capacity: {link: 1 MB / (units.matrix.clock - units.matrix.clock) * 1 Hz}, rate: 1 GT/s}
""")
    with pytest.raises(InputError) as caught:
        dse.load_accelerator(path)
    problems = [str(problem).removeprefix(f"{path}:") for problem in caught.value.problems]
    assert [problem.split(";")[0] for problem in problems] == [
        "6: units.matrix.peak.fp32: links form a cycle: units.matrix.peak.fp32 -> units.matrix.peak.tf32 -> units.matrix.peak.fp32",
        "8: units.matrix.peak.bf16: 'units.matrix.clock * 2' is in 1/s, and this number is in FLOP/s",
        "9: units.matrix.peak.fp8: the description gives no number 'units.matrx.peak.int8'",
        "10: units.matrix.peak.int8: a number has 'value' or 'link', not both",
        "11: units.matrix.peak.fp16: '1 TFLOP/s - 2 TFLOP/s' is -1e+12 FLOP/s",
        "14: units.vector.macs: peaks follow from macs x processors x clock, of which 'processors' and 'clock' is missing",
        "16: memory.dram.channels: '0' is not positive and finite",
        "17: memory.sram.rate: the bandwidth follows from channels x width x rate, of which 'channels' and 'width' is missing",
        "17: memory.sram.capacity: '1 MB / (units.matrix.clock - units.matrix.clock) * 1 Hz' divides by zero, or is not a finite number",
    ]


@pytest.mark.parametrize(
    ("dram", "problem"),
    [
        ({"channels": 4, "technology": "lpddr9"}, "memory.dram.technology: unknown memory technology 'lpddr9'"),
        ({"capacity": "8 GB", "bandwith": "1 TB/s"}, "memory.dram.bandwith: unknown key 'bandwith'"),
        ({"capacity": "8 GB"}, "memory.dram: the outermost memory level 'dram' has no bandwidth"),
        ("100 GB/s", "memory.dram: '100 GB/s' is not valid here"),
        ({"capacity": "8 GB", "bandwidth": "1 GHz"}, "memory.dram.bandwidth: 'GHz' is the wrong unit here"),
    ],
)
def test_a_link_to_a_number_with_a_problem_adds_no_second_error(dram, problem):
    memory = {"dram": dram, "sram": {"capacity": "1 MB", "bandwidth": {"link": "memory.dram.bandwidth * 4"}}}
    with pytest.raises(InputError) as caught:
        Accelerator.from_dict({**MACRO, "memory": memory})
    texts = [str(each) for each in caught.value.problems]
    assert texts[0].startswith(problem)
    assert not any("sram" in text for text in texts)


def test_a_link_to_a_number_that_is_not_given_is_an_error_next_to_others():
    memory = {"dram": {"capacity": "8 GB", "bandwidth": "1 GHz"}, "sram": {"bandwidth": {"link": "memory.hbm.bandwidth * 4"}}}
    with pytest.raises(InputError) as caught:
        Accelerator.from_dict({**MACRO, "memory": memory})
    assert [str(each).partition(";")[0] for each in caught.value.problems] == [
        "memory.dram.bandwidth: 'GHz' is the wrong unit here",
        "memory.sram.bandwidth: the description gives no number 'memory.hbm.bandwidth'",
    ]


def test_a_linked_number_meets_the_limits_of_its_kind():
    chip = {**MACRO, "memory": {**MACRO["memory"], "sram": {"channels": {"link": "units.matrix.processors / 8"}, "capacity": "1 MB"}}}
    with pytest.raises(InputError, match=r"memory.sram.channels: 0.5 is not a count"):
        Accelerator.from_dict(chip)


def test_sliders_and_sensitivities_vary_what_numbers_follow_from():
    chip = Accelerator.from_dict(MACRO)
    paths = decisive_paths(chip, OperandDtypes.model_validate("fp16"), "sol")
    assert sorted(paths) == [
        "memory.dram.channels", "memory.dram.rate", "memory.dram.width", "units.matrix.clock", "units.matrix.macs.int8", "units.matrix.processors",
    ]  # fmt: skip


def test_explanations_name_derived_numbers_and_not_their_sources_as_without_effect():
    chip = Accelerator.from_dict(MACRO)
    faster = chip.replace({"units.matrix.clock": "3 GHz", "memory.dram.channels": 16})
    sides = [{"accelerator": each, "workload": "resnet50", "variant": "dense", "dtype": "fp16"} for each in (chip, faster)]
    why = dse.explain(*sides)
    assert {part.key for part in why.parts} <= {"units.matrix.peak.fp16", "memory.dram.bandwidth"}
    assert not {"units.matrix.clock", "memory.dram.channels"} & set(why.without_effect)
