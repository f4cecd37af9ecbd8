"""A row of a table of measured kernels as a side: the dense time that it is compared with."""

import pytest

import dse
from dse.explaining.measured_row import read_measured_row
from dse.model.efficiency.efficiency_file import SHIPPED

HEAD = "device,kernel,release,pattern,dtype,m,k,n,time_ms,dense_kernel,dense_ms,source"
DENSE = "a100-sxm4-80gb,cuBLAS,12,dense,fp16,4096,4096,{n},{time},,,a test"
SPARSE = "a100-sxm4-80gb,cuSPARSELt,0.5,2:4,fp16,4096,4096,{n},{time},{dense},a test"


def write(folder, *rows):
    path = folder / "measured.csv"
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    return path


def test_a_dense_row_of_the_same_shape_is_the_baseline(tmp_path):
    rows = [DENSE.format(n=64, time=0.03), DENSE.format(n=512, time=0.08), SPARSE.format(n=512, time=0.05, dense=",")]
    path = write(tmp_path, *rows, SPARSE.format(n=512, time=0.05, dense="cuBLAS,0.08"), SPARSE.format(n=128, time=0.05, dense=","))
    separate, own, alone = (read_measured_row(f"{path}:{line}")["measured"] for line in (4, 5, 6))
    assert separate == own == f"{0.08 / 0.05}x"
    assert alone == "0.05 ms"  # no dense product of its shape was measured
    assert read_measured_row(f"{path}:2")["measured"] == "0.03 ms"
    assert dse.explain(f"{path}:4").value_b == pytest.approx(1.6)


def test_a_speedup_over_a_predicted_dense_latency_says_so():
    explained = dse.explain("a100-sxm4-80gb, 4096x4096x512, 2:4, measured=50 us")
    assert "the sparse latency, over the predicted dense one" in str(explained)


@pytest.mark.parametrize("other", ["calibrated, efficiencies={}", "calibrated, efficiencies={}, batch=2", "capacity, fusion=fitting"])
def test_options_that_one_fidelity_has_come_with_it(other):
    """Files of measured kernels and fusion: no mixture of both sides has one without the other."""
    explained = dse.explain("a100-sxm4-80gb, resnet50, fidelity=sol", other.format(SHIPPED))
    assert sum(part.value for part in explained.parts) == pytest.approx(explained.difference)
    assert not {"efficiencies", "fusion"} & {part.key for part in explained.parts}
