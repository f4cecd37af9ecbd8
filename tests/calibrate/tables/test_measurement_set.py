"""Tables of measured kernels: valid rows, and the error of each invalid one with its line."""

import os

import pytest

from dse.base.errors import InputError
from dse.calibrate.fit import calibration
from dse.calibrate.tables.launches import group_launches
from dse.calibrate.tables.measurement import Measurement
from dse.calibrate.tables.measurement_set import SHIPPED_MEASUREMENTS, load_measurements, pool
from dse.calibrate.tables.network_measurement import is_network_table
from dse.calibrate.validate.whole_networks import load_networks
from dse.cli import entry
from dse.model.efficiency.efficiency_file import load_efficiency_file
from dse.model.efficiency.kernels.launches import pattern_family
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.parameters import PRIOR
from dse.sparsity.grammar import parse

HEAD = "device,kernel,pattern,dtype,m,k,n,density,time_ms,dense_kernel,dense_ms,speedup,source"
DEVICE = """
name: mine
source: a test
units: {core: {peak: {fp32: 1 TFLOP/s}}}
memory: {dram: {bandwidth: 10 GB/s}}
"""
GOOD = "a100-sxm4-80gb,lib,2:4,fp16,4096,4096,4096,,0.4,blas,0.6,1.5,a test"


def write(folder, *rows, head=HEAD):
    path = folder / "table.csv"
    path.write_text("\n".join([head, *rows]) + "\n")
    return path


def test_a_row_has_a_dense_baseline(tmp_path):
    measured = load_measurements(write(tmp_path, GOOD))
    sparse, dense = measured.kernels
    assert (sparse.stored_density, dense.kernel, dense.time_ms, str(dense.pattern)) == (0.5, "blas", 0.6, "dense")
    by_kernel = {key.kernel: launches for key, launches in group_launches(measured).items()}
    assert by_kernel["lib"].flops[0] == 4096**3  # half of 2 m k n
    assert by_kernel["lib"].weight_bytes[0] == pytest.approx(0.5625 * 2 * 4096**2)  # 16 bit values, 2 bit indices
    assert by_kernel["blas"].time[0] == pytest.approx(0.6e-3)


def test_a_launch_measured_twice_counts_once_with_its_mean_time(tmp_path):
    twice = load_measurements(write(tmp_path, GOOD, GOOD.replace(",0.4,blas,0.6,1.5,", ",0.5,blas,0.8,1.6,")))
    assert [launches.time.tolist() for launches in group_launches(twice).values()] == [[pytest.approx(0.45e-3)], [pytest.approx(0.7e-3)]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (GOOD.replace(",0.4,", ",-0.4,"), "table.csv:3: time_ms: -0.4 is out of range; write a number above 0"),
        (GOOD.replace(",0.4,", ",nan,"), "table.csv:3: time_ms: 'nan' is not valid here (Input should be a finite number); write a finite number"),
        (GOOD.replace(",1.5,", ",1.2,"), "table.csv:3: a speedup of 1.2 contradicts the times, whose ratio is 1.5; remove the wrong one"),
        (GOOD.replace("a100-sxm4-80gb", "a1000"), "table.csv:3: device: 'a1000' is not an accelerator of the catalogue"),
        (GOOD.replace("fp16", "fp12"), "table.csv:3: dtype: unknown dtype 'fp12'"),
        (GOOD.replace("fp16", "fp4"), "table.csv:3: dtype: 'a100-sxm4-80gb' has no unit that computes in 'fp4'"),
        (GOOD.replace("2:4", "unstructured"), "table.csv:3: the density is missing: 'unstructured' may keep any fraction"),
        (GOOD.replace(",0.4,blas,0.6,1.5,", ",0.1,blas,0.6,6,"), "table.csv:3: time_ms: 687.2 TFLOP/s is above the peak of 'tensor_core' in fp16, 312"),
        (GOOD.replace("blas", ""), "table.csv:3: a dense time without its kernel"),
        (GOOD.replace("blas,0.6", ","), "table.csv:3: a speedup without the dense time that it is relative to"),
        (GOOD.replace("4096,,0.4", "4096,0.9,0.4"), "table.csv:3: a density of 0.9 contradicts '2:4', which keeps 0.5"),
        (GOOD.replace("2:4", "4:2"), "table.csv:3: pattern: '4:2' keeps 4 of 2, which is impossible"),
        (GOOD.replace("4096,4096,4096", "65536,65536,1").replace(",0.4,blas,0.6,1.5,", ",0.5,,,,"), "table.csv:3: time_ms: 8.51 TB/s of bytes that fit in no cache is above the bandwidth of 'dram', 2.039"),
        (GOOD.replace(",0.4,blas,0.6,1.5,", ",4,blas,0.6,0.15,"), "table.csv:3: time_ms: 4 ms, where row 2 has 0.4 ms for the same launch"),
        (GOOD.replace(",0.4,blas,0.6,1.5,", ",0.4,blas,2,5,"), "table.csv:3: dense_ms: 2 ms, where row 2 has 0.6 ms for the same launch"),
        (GOOD.replace("4096,4096,4096", "4096,4096,999999999999"), "table.csv:3: n: 999999999999 is out of range"),
        (GOOD.replace(",0.4,blas,0.6,1.5,", ",1e30,,,,"), "table.csv:3: time_ms: 1e30 is out of range"),
        (GOOD + ",more", "table.csv:3: 14 cells, but the header has 13; quote a cell"),
        ("a100-sxm4-80gb,lib", "table.csv:3: time_ms: the cell is empty; write a value"),
    ],
)  # fmt: skip
def test_errors_of_rows_name_their_lines(tmp_path, row, message):
    with pytest.raises(InputError) as caught:
        load_measurements(write(tmp_path, GOOD, row))
    assert message in str(caught.value).replace(str(tmp_path) + "/", "")


def test_missing_columns_and_every_bad_row_at_once_exit_2_and_write_nothing(tmp_path, capsys):
    first = write(tmp_path, GOOD.rpartition(",")[0], head=HEAD.removesuffix(",source"))
    second = tmp_path / "second.csv"
    second.write_text("\n".join([HEAD, GOOD.replace("4096,4096,4096", "0,4096,4096"), GOOD.replace(",0.6,", ",-6,")]) + "\n")
    assert entry.main(["calibrate", str(first), str(second), "-o", str(tmp_path / "out.yaml")]) == 2
    message = capsys.readouterr().err.replace(str(tmp_path) + "/", "")
    assert "table.csv:1: column 'source' is missing" in message
    assert "second.csv:2: m: 0 is out of range" in message
    assert "second.csv:3: dense_ms: -6 is out of range" in message
    assert not (tmp_path / "out.yaml").exists()


def test_a_device_may_be_described_next_to_the_table(tmp_path):
    (tmp_path / "mine.yaml").write_text(DEVICE)
    path = write(tmp_path, "mine,lib,unstructured,fp32,64,64,64,0.5,0.4,,,,a test")
    assert load_measurements(path).devices["mine"].name == "mine"


@pytest.mark.parametrize("device", ["broken.yaml", "./broken.yaml", "broken", "absent.yaml", "absent/device.yaml", "."])
def test_the_error_of_an_unreadable_device_names_the_row(tmp_path, capsys, device):
    (tmp_path / "broken.yaml").write_text("name: broken\nsorce: a test\n")
    path = write(tmp_path, GOOD, GOOD.replace("a100-sxm4-80gb", device))
    assert entry.main(["calibrate", str(path), "-o", str(tmp_path / "out.yaml")]) == 2
    message = capsys.readouterr().err.replace(str(tmp_path) + "/", "")
    assert "table.csv:3: device: " in message
    if "broken" in device:
        assert "broken.yaml:2: sorce: unknown key" in message
        assert f"the description of '{device}' cannot be used; fix 'broken.yaml'" in message
    assert not (tmp_path / "out.yaml").exists()


def test_an_unknown_unit_is_refused(tmp_path):
    path = write(tmp_path, GOOD + ",tensorcore", head=HEAD + ",unit")
    with pytest.raises(InputError, match="'a100-sxm4-80gb' has no unit 'tensorcore'; did you mean 'tensor_core'"):
        load_measurements(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        (HEAD.replace(",", ";"), "cells are separated by semicolons"),
        (HEAD.replace(",", "\t"), "separated by tabs"),
    ],
)
def test_a_file_that_is_not_a_table_has_one_error(tmp_path, text, message):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_measurements(path)
    assert message in str(caught.value)
    assert len(caught.value.problems) == 1


def test_a_device_given_as_a_path_has_the_name_of_its_description(tmp_path):
    """So that its measurements count for it."""
    (tmp_path / "file.yaml").write_text(DEVICE)
    measured = load_measurements(write(tmp_path, "./file.yaml,lib,unstructured,fp32,64,64,64,0.5,0.4,,,,a test"))
    assert ([row.device for row in measured.rows], list(measured.devices)) == (["mine"], ["mine"])


def test_a_kernel_may_be_in_several_tables(tmp_path, capsys):
    rows = [
        GOOD.replace("4096,4096,4096", f"{m},4096,4096").replace(",0.4,blas,0.6,1.5,", f",{m / 1e4},,,,") for m in range(1024, 9216, 1024)
    ]
    for name, some in (("one.csv", rows[:4]), ("two.csv", rows[4:])):
        (tmp_path / name).write_text("\n".join([HEAD, *some]) + "\n")
    files, out = [str(tmp_path / name) for name in ("one.csv", "two.csv")], tmp_path / "out.yaml"
    assert entry.main(["calibrate", *files, "-o", str(out), "--samples", "1"]) == 0
    assert "8 shapes" in capsys.readouterr().out


def test_files_that_describe_a_device_differently_are_not_pooled(tmp_path):
    sets = []
    for number, text in enumerate((DEVICE, DEVICE.replace("1 TFLOP/s", "2 TFLOP/s"))):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "mine.yaml").write_text(text)
        sets.append(load_measurements(write(tmp_path / f"{number}", "mine,lib,unstructured,fp32,64,64,64,0.5,0.4,,,,a test")))
    with pytest.raises(InputError, match="'mine' is described differently in"):
        pool(sets)
    assert len(pool(sets[:1] * 2).rows) == 2


def test_measurements_are_not_overwritten(tmp_path, capsys):
    path = write(tmp_path, GOOD)
    before = path.read_text()
    assert entry.main(["calibrate", str(path), "-o", str(path), "--samples", "-1", "--seed", "-2"]) == 2
    message = capsys.readouterr().err
    assert all(part in message for part in ("would be overwritten", "--samples: -1 is out of range", "--seed: -2 is out of range"))
    assert path.read_text() == before


def test_poor_fits_and_unknown_processors_are_reported(tmp_path, capsys):
    """Times that fall with the work, on a device whose description states no processors."""
    (tmp_path / "mine.yaml").write_text(DEVICE)
    rows = [f"mine,lib,dense,fp32,{m},512,512,,{8000 / m},,,,a test" for m in (64, 128, 256, 512, 1024, 2048)]
    assert entry.main(["calibrate", str(write(tmp_path, *rows)), "-o", str(tmp_path / "out.yaml"), "--samples", "1"]) == 0
    message = capsys.readouterr().out
    assert "poor fit: mine lib dense fp32" in message
    assert "'mine' does not state units.core.processors" in message


def test_a_launch_far_from_the_others_is_named(tmp_path, capsys):
    """One time in another unit, which a relative error hides."""
    (tmp_path / "mine.yaml").write_text(DEVICE)
    times = {512: 0.5, 1024: 1.0, 2048: 800.0, 4096: 4.0, 8192: 8.0, 16384: 16.0}
    rows = [f"mine,lib,dense,fp32,{m},512,512,,{time},,,,a test" for m, time in times.items()]
    assert entry.main(["calibrate", str(write(tmp_path, *rows)), "-o", str(tmp_path / "out.yaml"), "--samples", "1"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("outliers: mine lib dense fp32")]
    assert "1 of 6 launches are over 4 times off; 800 ms at m=2048 k=512 n=512" in line


def test_too_few_shapes_are_refused(tmp_path, capsys):
    """Without a prior from kernels like it; with one, a single shape is enough."""
    arguments = ["calibrate", str(write(tmp_path, GOOD)), "-o", str(tmp_path / "out.yaml"), "--samples", "2"]
    assert entry.main([*arguments, "--prior", "none"]) == 2
    assert "no kernel has 5 shapes" in capsys.readouterr().err
    assert entry.main(arguments) == 0
    assert "1 shapes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("2:4", "*:4"), ("4:32", "*:32"), ("64:2:8", "*:4"), ("unstructured", "unstructured"), ("vector:8", "block:8x1"), ("dense", "dense")],
)
def test_a_pattern_family_has_no_density(pattern, message):
    assert pattern_family(parse(pattern)) == message


def test_shipped_measurements_are_small_and_name_their_sources():
    files = sorted(SHIPPED_MEASUREMENTS.glob("*.csv"))
    assert sum(file.stat().st_size for file in files) < 200_000
    readme = (SHIPPED_MEASUREMENTS / "README.md").read_text()
    for file in files:
        assert f"`{file.name}`" in readme
        rows = [network.row for network in load_networks(file).networks] if is_network_table(file) else load_measurements(file).rows
        assert all(row.source for row in rows)


def test_errors_of_different_kinds_are_reported_at_once(tmp_path, capsys):
    bad = (
        GOOD.replace("a100-sxm4-80gb", "rtx9999"),
        GOOD.replace("0.4,blas,0.6,1.5", "-0.4,blas,0.6,1.5"),
        GOOD.replace("0.4,blas,0.6,1.5", "0.0004,blas,0.0006,1.5"),
    )
    assert entry.main(["calibrate", str(write(tmp_path, *bad)), "-o", str(tmp_path / "out.yaml")]) == 2
    lines = [line.partition("table.csv:")[2][:2] for line in capsys.readouterr().err.splitlines()]
    assert list(dict.fromkeys(lines)) == ["2:", "3:", "4:"]


def test_every_invalid_row_of_a_published_table_is_reported(tmp_path):
    path = tmp_path / "llmcompass_dense_matmul.csv"
    head, good = "gpu,M,K,N,precision,ms,source", "A100,4096,4096,4096,fp16,0.6,a test"
    bad = (good.replace("0.6", "-0.6"), good.replace("fp16", "fp12"), good.replace("0.6", "0.0006"))
    path.write_text("\n".join([head, good, "P100" + good[4:], *bad]) + "\n")
    with pytest.raises(InputError) as caught:
        load_measurements(path)
    message = [line.partition("matmul.csv:")[2] for line in str(caught.value).splitlines()]
    assert [line[:2] for line in message] == ["4:", "5:", "6:"]
    assert message[0] == "4: time_ms: -0.6 is out of range; write a number above 0"
    path.write_text("\n".join([head, good, "P100" + good[4:]]) + "\n")
    assert load_measurements(path).left_out == (f"{path}:3: no description of 'P100', did you mean 'v100-sxm2-32gb'?",)


def test_thousands_of_errors_are_reported_in_seconds(tmp_path, monkeypatch):
    """The JSON Schema that fixes are looked up in is built once."""
    builds, build = [], Measurement.model_json_schema
    monkeypatch.setattr(Measurement, "model_json_schema", lambda: builds.append(1) or build())
    with pytest.raises(InputError) as caught:
        load_measurements(write(tmp_path, *[f"{GOOD},extra"] * 200))
    assert len(caught.value.problems) == 200
    assert len(builds) <= 1


def rows_of(number, time_ms=0.4):
    """Launches of different sizes, none above the peak."""
    return [f"a100-sxm4-80gb,lib,2:4,fp16,{64 * n},64,64,,{time_ms},,,,a test" for n in range(1, number + 1)]


def test_a_few_implausible_rows_are_left_out_and_listed(tmp_path):
    """One of 201 is above the peak; two of 201 contradict each other; all three of 202 are more than 1%."""
    good = rows_of(200)
    fast = GOOD.replace(",0.4,blas,0.6,1.5,", ",0.01,blas,0.6,60,")
    measured = load_measurements(path := write(tmp_path, *good, fast))
    assert len(measured.rows) == 200
    (line,) = measured.left_out
    assert line.startswith(f"{path}:202: time_ms: ")
    assert "is above the peak" in line
    again = good[0].replace(",0.4,,", ",4,,")
    measured = load_measurements(path := write(tmp_path, *good, again))
    assert len(measured.rows) == 199  # which of the two is wrong is not known
    assert measured.left_out == (f"{path}:202: time_ms: 4 ms, where row 2 has 0.4 ms for the same launch; remove the wrong one",)
    with pytest.raises(InputError) as caught:
        load_measurements(write(tmp_path, *good, fast, again))
    assert len(caught.value.problems) == 2


def test_masks_with_different_row_statistics_are_different_launches(tmp_path):
    """Two masks of one shape and density, one with all nonzeros in few rows: three times as slow, which is not a contradiction."""
    row = "a100-sxm4-80gb,lib,unstructured,fp16,4096,4096,4096,0.1,{time},,,,{spread},a test"
    head = HEAD.replace(",source", ",row_std,source")
    measured = load_measurements(
        write(tmp_path, row.format(time=4, spread=10), row.format(time=12, spread=400), row.format(time=6, spread=10), head=head)
    )
    (launches,) = group_launches(measured).values()
    assert launches.time.tolist() == pytest.approx([5e-3, 12e-3])
    assert launches.row_spread.tolist() == pytest.approx([10 / 409.6, 400 / 409.6])


def test_a_killed_calibration_resumes(tmp_path, monkeypatch):
    """Each kernel is written to the checkpoint when it is fitted, and again with its intervals; the checkpoint is removed in the end."""
    fitted, allowed = [], 1

    def fit_alone(launches, others):
        if len(fitted) == allowed:
            raise KeyboardInterrupt
        fitted.append(launches.key.kernel)
        return KernelModel(launches.key, PRIOR.mean)

    monkeypatch.setattr(calibration, "fit_alone", fit_alone)
    rows = [row.replace(",lib,", f",{kernel},") for kernel in ("one", "two") for row in rows_of(6)]
    arguments = ["calibrate", str(write(tmp_path, *rows)), "-o", str(tmp_path / "e.yaml"), "--samples", "2"]
    assert entry.main(arguments) == 130
    with (tmp_path / "e.yaml.partial").open("a") as file:
        file.write('{"device": "a1')  # incomplete because of the kill
    allowed = 2
    assert entry.main(arguments) == 0
    assert fitted == ["one", "two"]
    assert [kernel.kernel for kernel in load_efficiency_file(tmp_path / "e.yaml").kernels] == ["one", "two"]
    assert not (tmp_path / "e.yaml.partial").exists()


def test_products_with_other_numbers_of_weights_in_turn_are_different_launches(tmp_path):
    """Six matrices that the repeats multiply in turn do not fit into the cache that one fits into."""
    head = HEAD.replace(",source", ",weight_copies,source")
    rows = [GOOD.replace(",0.4,blas,0.6,1.5,", f",{time},,,,{copies},") for time, copies in ((0.4, 1), (1.0, 6))]
    (launches,) = group_launches(load_measurements(write(tmp_path, *rows, head=head))).values()
    assert launches.time.tolist() == pytest.approx([0.4e-3, 1e-3])


def test_a_kernel_that_only_its_former_fit_is_like_needs_enough_shapes(tmp_path, capsys):
    row = "rtx3090,CLASP,block:2x1,fp16,2048,2048,256,0.2,1.0,,,,a test"
    assert entry.main(["calibrate", str(write(tmp_path, row)), "-o", str(tmp_path / "out.yaml")]) == 2
    assert "1 shapes, fewer than 5" in capsys.readouterr().err


def test_times_in_microseconds_are_reported(tmp_path, capsys):
    rows = [f"a100-sxm4-80gb,lib,dense,fp16,{m},4096,4096,,{m / 10},,,,a test" for m in (1024, 2048, 3072, 4096, 8192)]
    assert entry.main(["calibrate", str(write(tmp_path, *rows)), "-o", str(tmp_path / "out.yaml"), "--samples", "1"]) == 0
    assert "slow: a100-sxm4-80gb lib dense fp16, every launch takes over" in capsys.readouterr().out


def test_a_pipe_is_refused_since_tables_are_read_several_times(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert entry.main(["calibrate", str(tmp_path / "pipe"), "-o", str(tmp_path / "out.yaml")]) == 2
    assert entry.main(["validate", "--data", str(tmp_path / "pipe")]) == 2
    assert capsys.readouterr().err.count("a pipe or a device, but the table is read several times; write it to a file, and give that") == 2
