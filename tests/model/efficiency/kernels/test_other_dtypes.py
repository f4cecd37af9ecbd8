"""Kernels in a dtype that was not measured: by those of the same device in one with the same kernels, or of the same unit in another width."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dse
from dse.calibrate.tables.launches import group_launches
from dse.calibrate.tables.measurement_set import SHIPPED_MEASUREMENTS, load_measurements
from dse.cli import entry
from dse.model.efficiency.efficiency_file import shipped_kernels
from dse.model.efficiency.kernels.record import KernelRecord
from dse.model.efficiency.kernels.selection import BETWEEN_16_BIT_DTYPES, BETWEEN_WIDTHS
from tests.model.efficiency.calibrated_networks import gemm, variant

KERNELS = shipped_kernels()
MEASURED_IN_BF16 = ("b200-sxm-180gb", "l40s")
EVERY_NTH = 7  # of the measured launches
sizes = st.sampled_from([64, 512, 1000, 4096, 13824])


def evaluate(device, dtype, shape, pattern="dense", density=1.0):
    return dse.evaluate(device, variant([gemm(*shape)], pattern, density), dtype=dtype, fidelity="calibrated")


def width(result):
    return np.log(result.latency_high.item() / result.latency_low.item())


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(MEASURED_IN_BF16), sizes, sizes, sizes)
def test_fp16_takes_as_long_as_bf16_where_that_was_measured(device, m, k, n):
    """With a wider interval, and named after the kernel that was measured."""
    in_fp16, in_bf16 = (evaluate(device, dtype, (m, k, n)) for dtype in ("fp16", "bf16"))
    assert in_fp16.latency.item() == pytest.approx(in_bf16.latency.item())
    assert width(in_fp16) > width(in_bf16)
    assert in_fp16.kernel.item() == in_bf16.kernel.item().replace("(measured)", "(transferred)")


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(["mi300x", "mi325x", "mi355x"]), sizes, sizes, sizes)
def test_fp8_gains_over_fp16_at_most_what_the_unit_does(device, m, k, n):
    """The matrix cores of AMD were measured in fp16 only, whose kernels predict those in fp8."""
    in_fp8, in_fp16 = (evaluate(device, dtype, (m, k, n)).latency.item() for dtype in ("fp8", "fp16"))
    assert 0.45 < in_fp8 / in_fp16 < 1.05


def test_a_dtype_with_the_same_kernels_need_not_be_measured(capsys):
    assert entry.main(["calibrate", "--few", "3", "--device", "b200-sxm-180gb", "--dtype", "fp16"]) == 0
    assert "a dtype that has the same kernels" in capsys.readouterr().out


def mean_square_errors(is_partner) -> Iterator[tuple[float, float]]:
    """Of each shipped kernel of cuBLASLt and cuSPARSELt, by each partner on the same device and by itself."""
    for table in sorted((SHIPPED_MEASUREMENTS / "silicon").glob("*_2to4.csv.gz")):
        for key, launches in group_launches(load_measurements(table)).items():
            own = next((kernel for kernel in KERNELS if kernel.key == key and kernel.shapes > 20), None)
            some = launches.take(np.arange(0, len(launches), EVERY_NTH))
            for partner in filter(lambda other: own is not None and is_partner(own, other), KERNELS):
                errors = [np.log(replace(each.model, key=key).predict_times(some) / some.time) for each in (partner, own)]
                yield tuple(float(np.mean(error**2)) for error in errors)


def is_same_library(own: KernelRecord, other: KernelRecord) -> bool:
    same = (own.device, own.kernel, own.family) == (other.device, other.kernel, other.family)
    return same and other.key != own.key and other.shapes > 20


def test_deviations_between_dtypes_are_those_of_measured_pairs():
    """In addition to the error of a kernel's own fit."""

    def is_16_bit_pair(own: KernelRecord, other: KernelRecord) -> bool:
        return is_same_library(own, other) and (own.value_bits, other.value_bits) == (16, 16)

    def is_dense_of_another_width(own: KernelRecord, other: KernelRecord) -> bool:
        return is_same_library(own, other) and own.family == "dense" and own.value_bits != other.value_bits

    for is_partner, count, stated in ((is_16_bit_pair, 12, BETWEEN_16_BIT_DTYPES), (is_dense_of_another_width, 20, BETWEEN_WIDTHS)):
        by_partner, by_itself = np.array(list(mean_square_errors(is_partner))).T
        assert len(by_partner) == count
        assert np.sqrt(np.mean(by_partner - by_itself)) == pytest.approx(stated, rel=0.15)
