"""What a library leaves unexplained on every device: by hand, for devices with drawn deviations, and in predictions of other devices."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.cli.entry import main
from dse.model.efficiency.efficiency_file import load_efficiency_file, shipped_kernels
from dse.model.efficiency.kernels.discrepancy import Discrepancy, correlation, log_sizes, shared_discrepancy
from dse.model.efficiency.kernels.launches import KernelKey
from dse.model.efficiency.kernels.record import DiscrepancyRecord
from dse.model.efficiency.kernels.transfer import discrepancy_of_library, predict_kernel
from tests.model.efficiency.kernels.launches import unmeasured_launches

H100 = dse.load_accelerator("h100-sxm5-80gb")
KEY = KernelKey("h100-sxm5-80gb", "tensor_core", "cuSPARSELt", "", "*:4", "bf16")
LENGTHS, DEVIATION, NOISE = np.full(4, 16.0), 0.2, 0.02


def launches_of(shapes):
    return unmeasured_launches(KEY, H100, shapes, "2:4", 0.5)


def random_launches(count, seed=0):
    return launches_of(np.round(2 ** np.random.default_rng(seed).uniform(5, 14, (count, 3))).astype(int).tolist())


def draw(sizes, seed):
    """Deviations of a device at some sizes."""
    covariance = DEVIATION**2 * correlation(sizes, sizes, LENGTHS)
    return np.linalg.cholesky(covariance + 1e-9 * np.eye(len(sizes))) @ np.random.default_rng(seed).normal(size=len(sizes))


def measured(sizes, log_ratios):
    return Discrepancy(sizes, log_ratios, LENGTHS, DEVIATION, NOISE)


def test_two_devices_with_one_launch_by_hand():
    """a and b of one shape: each expects c = s^2 / (s^2 + n^2) of its own, so that the slope is 2 a b / (c (a^2 + b^2))."""
    launch, far, a, b = launches_of([(1024, 1024, 1024)]), launches_of([(2**60, 2**60, 2**60)]), 0.2, 0.04
    shared = shared_discrepancy({name: [measured(log_sizes(launch), np.array([value]))] for name, value in (("one", a), ("other", b))})
    assert shared is not None
    c = DEVIATION**2 / (DEVIATION**2 + NOISE**2)
    weight = 2 * a * b / (c * (a**2 + b**2))
    assert shared.log_factor(launch) == pytest.approx([weight * c * (a + b) / 2], rel=1e-4)
    explained = (2 * a * b / (a**2 + b**2)) ** 2
    assert shared.relative_deviation(launch) == pytest.approx([np.sqrt(1 - explained)], rel=1e-4)
    assert shared.log_factor(far) == pytest.approx([0], abs=1e-3)
    assert shared.relative_deviation(far) == pytest.approx([1], rel=1e-3)


@given(st.integers(0, 1000), st.integers(2, 4))
def test_devices_that_deviate_alike_predict_another(seed, device_count):
    """Equal deviations everywhere are those of one more device, which then adds next to nothing."""
    known, unseen = random_launches(60, seed), random_launches(20, seed + 1)
    log_ratios = draw(log_sizes(known), seed)
    shared = shared_discrepancy({str(number): [measured(log_sizes(known), log_ratios)] for number in range(device_count)})
    assert shared is not None
    assert shared.log_factor(unseen) == pytest.approx(measured(log_sizes(known), log_ratios).log_factor(unseen), abs=0.01)
    assert shared.own < 0.15 * DEVIATION


def test_part_of_the_deviations_is_common():
    """Half of the variance of each of four devices is common: a fifth device deviates less from the model with it, and as far as stated."""
    known, unseen = log_sizes(random_launches(300)), random_launches(200, 1)
    both = np.concatenate([known, log_sizes(unseen)])
    common, devices = draw(both, 0), [draw(both, seed) for seed in range(1, 6)]
    of_devices = {str(number): [measured(known, ((common + own) / np.sqrt(2))[:300])] for number, own in enumerate(devices[:4])}
    shared = shared_discrepancy(of_devices)
    assert shared is not None
    of_fifth = ((common + devices[4]) / np.sqrt(2))[300:]
    remaining = of_fifth - shared.log_factor(unseen)
    assert np.std(remaining) < 0.9 * np.std(of_fifth)
    assert (np.abs(remaining) < 1.645 * np.hypot(shared.deviation, shared.own) * shared.relative_deviation(unseen)).mean() > 0.8


def test_devices_without_anything_in_common_predict_nothing():
    """Deviations of opposite signs have no positive slope; those that are independent have a small one."""
    sizes = log_sizes(random_launches(300))
    log_ratios = draw(sizes, 0)
    assert shared_discrepancy({"one": [measured(sizes, log_ratios)], "other": [measured(sizes, -log_ratios)]}) is None
    independent = shared_discrepancy({str(seed): [measured(sizes, draw(sizes, seed))] for seed in range(4)})
    assert independent is None or independent.own > 0.8 * DEVIATION


def test_deviations_that_hardly_differ_from_none_can_be_recorded():
    sizes = log_sizes(random_launches(30))
    tiny = [Discrepancy(sizes, 1e-6 * draw(sizes, seed), LENGTHS, 1e-5, 1e-6) for seed in (0, 0)]
    shared = shared_discrepancy({"one": tiny[:1], "other": tiny[1:]})
    assert shared is not None
    record = DiscrepancyRecord.of(shared, 0.1)
    assert record.discrepancy().log_factor(random_launches(5, 1)) == pytest.approx(np.zeros(5), abs=1e-4)


def test_one_device_does_not_show_what_another_shares():
    sizes = log_sizes(random_launches(50))
    assert shared_discrepancy({}) is None
    assert shared_discrepancy({"only": [measured(sizes, draw(sizes, seed)) for seed in range(2)]}) is None


def predicted(library, family, bits):
    """The kernel of a library on an H100, by the shipped kernels of a family with values of some width."""
    kernels = [kernel for kernel in shipped_kernels() if kernel.family == family and kernel.value_bits == bits and not kernel.has_scales]
    return predict_kernel(kernels, replace(KEY, kernel=library, family=family), "hbm", kernels)[0]


def test_a_kernel_deviates_as_its_own_library_does_on_other_devices():
    """A library that was measured on one device, or nowhere, shows nothing."""
    kernels = [kernel for kernel in shipped_kernels() if kernel.kernel == "cuSPARSELt" and kernel.value_bits == 16]
    of_library = discrepancy_of_library(kernels, "cuSPARSELt")
    assert of_library is not None
    launches = random_launches(20)
    assert predicted("cuSPARSELt", "*:4", 16).fitted_discrepancy.log_factor(launches) == pytest.approx(
        of_library.log_factor(launches), abs=1e-3
    )
    assert predicted("another", "*:4", 16).discrepancy is None
    assert predicted("CUTLASS", "*:4", 16).discrepancy is None


def test_what_a_library_shares_is_no_evidence_of_it():
    """A kernel with few launches, which took over the discrepancy of its library, does not count as one more device."""
    kernels = [kernel for kernel in shipped_kernels() if kernel.kernel == "cuSPARSELt" and kernel.value_bits == 16]
    derived = predicted("cuSPARSELt", "*:4", 16).model_copy(update={"device": "h100-sxm5-80gb"})
    assert discrepancy_of_library([*kernels, derived], "cuSPARSELt") is discrepancy_of_library(kernels, "cuSPARSELt")


@pytest.mark.parametrize(
    ("library", "family", "bits", "share"),
    [("cuSPARSELt", "*:4", 16, 0.4), ("cuSPARSELt", "*:4", 8, 0.03), ("cuBLASLt", "dense", 16, 0.01), ("cuBLASLt", "dense", 8, 0.09)],
)
def test_shares_are_those_of_the_documentation(library, family, bits, share):
    """The share of the variance that devices have in common."""
    discrepancy = predicted(library, family, bits).fitted_discrepancy
    assert discrepancy is not None
    assert discrepancy.deviation**2 / (discrepancy.deviation**2 + discrepancy.own**2) == pytest.approx(share, rel=0.2)


def test_a_few_measurements_are_explained_by_the_library_first(tmp_path):
    """Of times that deviate as the library does, five predict those of other shapes that the library was measured at elsewhere."""
    record = predicted("cuSPARSELt", "*:4", 16)
    model = replace(record.model, key=KEY)
    known = np.round(np.exp2(record.fitted_discrepancy.sizes[:, :3])).astype(int).tolist()
    shapes, unseen = launches_of(known[::100][:5]), launches_of(known[50::10])
    rows = [
        f"h100-sxm5-80gb,cuSPARSELt,2:4,bf16,{m:.0f},{k:.0f},{n:.0f},{time * 1e3:.6g},a test"
        for m, k, n, time in zip(shapes.m, shapes.k, shapes.n, model.predict_times(shapes), strict=True)
    ]
    (tmp_path / "t.csv").write_text("device,kernel,pattern,dtype,m,k,n,time_ms,source\n" + "\n".join(rows) + "\n")
    assert main(["calibrate", str(tmp_path / "t.csv"), "-o", str(tmp_path / "e.yaml"), "--samples", "2", "-q"]) == 0
    (fitted,) = load_efficiency_file(tmp_path / "e.yaml").kernels
    assert fitted.fitted_discrepancy is not None
    assert fitted.fitted_discrepancy.own > 0
    error = np.abs(fitted.model.predict_times(unseen) / model.predict_times(unseen) - 1).mean()
    of_parameters = replace(fitted.model, discrepancy=None)
    assert error < 0.5 * np.abs(of_parameters.predict_times(unseen) / model.predict_times(unseen) - 1).mean()
