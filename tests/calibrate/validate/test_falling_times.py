"""Measured times that fall as the work grows: counted by hand, and reported by `dse validate`."""

import json

import numpy as np
import pytest

from dse.calibrate.tables.launches import group_launches, pair_with_baselines
from dse.calibrate.tables.measurement_set import load_measurements
from dse.calibrate.validate.falling_times import describe_falling_times, falling_ratios
from dse.calibrate.validate.left_out_shapes import FittedSet
from dse.cli.entry import main

HEAD = "device,kernel,pattern,dtype,m,k,n,time_ms,source\n"


def write_table(folder, times):
    """A table of a 2:4 kernel with products of 1024 and 2048 rows, with the times [ms] of 64, 128, 256, ... columns each."""
    rows = [
        f"a100-sxm4-80gb,lib,2:4,fp16,{m},1024,{64 << number},{time},a test"
        for m in (1024, 2048)
        for number, time in enumerate(np.array(times) * m / 1024)
    ]
    (folder / "t.csv").write_text(HEAD + "\n".join(rows) + "\n")
    return folder / "t.csv"


def fitted(path):
    measured = load_measurements(path)
    return FittedSet(measured, group_launches(measured), pair_with_baselines(measured), {})


def test_times_are_compared_with_those_of_the_next_greater_n(tmp_path):
    measured = fitted(write_table(tmp_path, [0.04, 0.02, 0.021, 0.0205]))
    (launches,) = measured.launches.values()
    assert falling_ratios(launches) == pytest.approx([2, 0.02 / 0.021, 0.021 / 0.0205] * 2)
    assert list(describe_falling_times(measured)) == [
        "t: a100-sxm4-80gb lib *:4 fp16: 2 of 6 launches take longer than the one with the next greater n, up to 2.0 times"
    ]


def test_times_that_grow_or_differ_by_noise_are_not_reported(tmp_path):
    assert not list(describe_falling_times(fitted(write_table(tmp_path, [0.0205, 0.02, 0.03, 0.06]))))


def test_a_launch_without_neighbours_says_nothing(tmp_path):
    measured = fitted(write_table(tmp_path, [0.02]))
    assert not list(describe_falling_times(measured))


def test_the_command_reports_them(tmp_path, capsys):
    path = write_table(tmp_path, [0.04, 0.02, 0.03, 0.06])
    main(["validate", "--data", str(path), "--brief"])
    assert "times that fall: t: a100-sxm4-80gb lib *:4 fp16: 2 of 6 launches" in capsys.readouterr().out
    main(["validate", "--data", str(path), "--json"])
    assert len(json.loads(capsys.readouterr().out)["times_that_fall"]) == 1
