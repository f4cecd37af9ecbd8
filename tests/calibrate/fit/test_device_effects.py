"""Kernels with few launches have the effect of their device in common, and a kernel that is alone is fitted to its own."""

from dataclasses import replace

import numpy as np
import pytest

import dse
from dse.calibrate.fit.device_effects import FewLaunches, fit_few_launches, is_predicted_by_others, predicting_kernels
from dse.calibrate.fit.discrepancy import MIN_LAUNCHES
from dse.calibrate.fit.export import format_efficiency_file
from dse.calibrate.fit.parameters import fit_parameters
from dse.cli.entry import main
from dse.model.efficiency.efficiency_file import load_efficiency_file, shipped_kernels
from dse.model.efficiency.kernels.parameters import PARAMETERS
from tests.model.efficiency.kernels.launches import unmeasured_launches

DEVICE = dse.load_accelerator("rtx4090")
OTHERS = [kernel for kernel in shipped_kernels() if kernel.device != "rtx4090"]
KEYS = {
    (k.family, k.dtype): k.key for k in shipped_kernels() if (k.device, k.kernel) in {("rtx4090", "cuBLASLt"), ("rtx4090", "cuSPARSELt")}
}
SMALL, LARGE = [(1024, 1024, 16 * n) for n in range(1, 6)], [(8192, 8192, 1024 * n) for n in range(1, 6)]
TABLE_HEAD = "device,kernel,pattern,dtype,m,k,n,time_ms,source"
LAUNCH = [parameter.name for parameter in PARAMETERS].index("launch")


def few(family, dtype, shapes, of_device=0.0, slower=1.0):
    """A kernel and its launches on a device whose launch is `of_device` standard deviations longer than predicted; the first launch takes
    `slower` times as long as it should."""
    key = KEYS[family, dtype]
    pattern, density = ("dense", 1.0) if family == "dense" else ("2:4", 0.5)
    launches = unmeasured_launches(key, DEVICE, shapes, pattern, density)
    kernel = FewLaunches.predicted_by(predicting_kernels(key, OTHERS), launches, OTHERS)
    factor = np.where(np.arange(len(shapes)) == 0, slower, 1.0)
    return kernel._replace(launches=replace(launches, time=truth(kernel, of_device).predict_times(launches) * factor))


def truth(kernel, of_device):
    shift = of_device * kernel.shared_deviation * (np.arange(len(PARAMETERS)) == LAUNCH)
    return replace(kernel.model, theta=kernel.prediction.theta + shift)


def error(fit, kernel, of_device, shapes):
    """Mean absolute logarithm of predicted over true times of some shapes."""
    launches = unmeasured_launches(kernel.model.key, DEVICE, shapes, "dense", 1.0)
    return float(np.abs(np.log(fit.model.predict_times(launches) / truth(kernel, of_device).predict_times(launches))).mean())


def test_kernels_share_how_long_a_launch_of_the_device_takes():
    """Large products do not show it; small ones of other kernels do."""
    large = few("dense", "fp16", LARGE, of_device=2.0)
    small = [few("dense", "bf16", SMALL, of_device=2.0), few("*:4", "fp16", SMALL, of_device=2.0)]
    (alone,), (together, *_) = fit_few_launches([large]), fit_few_launches([large, *small])
    assert error(together, large, 2.0, SMALL) < 0.4 * error(alone, large, 2.0, SMALL)


def test_other_kernels_contradict_a_launch_that_is_unlike_its_neighbours():
    misled = few("dense", "fp16", SMALL[:2], slower=3.0)
    others = [few("dense", "bf16", SMALL), few("dense", "int8", SMALL), few("*:4", "fp16", SMALL)]
    (alone,), (together, *_) = fit_few_launches([misled]), fit_few_launches([misled, *others])
    assert error(together, misled, 0.0, SMALL) < 0.9 * error(alone, misled, 0.0, SMALL)


def test_a_kernel_alone_has_its_prediction_as_prior():
    kernel = few("dense", "fp16", SMALL, of_device=1.0)
    (fit,) = fit_few_launches([kernel])
    own = fit_parameters(kernel.model, kernel.launches, prior=kernel.prediction.distribution, noise=kernel.noise)
    np.testing.assert_allclose(fit.model.theta, own.theta, atol=1e-3)
    np.testing.assert_array_equal(fit.prior.deviation, kernel.prediction.distribution.deviation)


def test_what_others_say_narrows_the_prior_of_the_parameters_of_the_device_alone():
    kernels = [few("dense", dtype, SMALL, of_device=1.0) for dtype in ("fp16", "bf16", "int8")]
    for kernel, fit in zip(kernels, fit_few_launches(kernels), strict=True):
        narrowed = fit.prior.deviation / kernel.prediction.distribution.deviation
        is_of_device = np.array([parameter.is_of_device for parameter in PARAMETERS])
        assert narrowed[LAUNCH] < 0.95
        np.testing.assert_allclose(narrowed[~is_of_device], 1.0, rtol=1e-12)
        assert np.all(narrowed <= 1 + 1e-12)


def test_the_order_of_kernels_does_not_matter():
    kernels = [
        few("dense", "fp16", LARGE, of_device=1.0),
        few("dense", "bf16", SMALL, of_device=1.0),
        few("*:4", "fp16", SMALL, of_device=1.0),
    ]
    forward, backward = fit_few_launches(kernels), fit_few_launches(kernels[::-1])[::-1]
    for one, other in zip(forward, backward, strict=True):
        np.testing.assert_allclose(one.model.theta, other.model.theta, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("count", "is_few"), [(MIN_LAUNCHES - 1, True), (MIN_LAUNCHES, False)])
def test_only_kernels_with_few_launches_begin_as_their_library_predicts_them(count, is_few):
    launches = unmeasured_launches(KEYS["dense", "fp16"], DEVICE, [(1024, 1024, 8 * n) for n in range(1, count + 1)], "dense", 1.0)
    assert is_predicted_by_others(launches, [kernel.key for kernel in shipped_kernels()]) is is_few


def test_kernels_of_the_group_on_other_devices_predict():
    similar = predicting_kernels(KEYS["dense", "fp16"], shipped_kernels())
    assert similar
    assert all(kernel.key.group == KEYS["dense", "fp16"].group and kernel.device != "rtx4090" for kernel in similar)


def test_kernels_of_libraries_that_no_other_device_has_are_fitted_by_themselves():
    launches = unmeasured_launches(replace(KEYS["dense", "fp16"], kernel="mine"), DEVICE, SMALL, "dense", 1.0)
    known = [kernel.key for kernel in shipped_kernels()]
    assert not is_predicted_by_others(launches, known)
    assert not is_predicted_by_others(launches, [*known, launches.key])
    assert is_predicted_by_others(launches, [*known, replace(launches.key, device="rtx3090")])


def test_a_kernel_of_the_prior_that_is_measured_again_does_not_predict_itself(tmp_path):
    """The prior says the same whether it has the old fit of that kernel or not."""
    key = KEYS["dense", "fp16"]
    rows = [f"rtx4090,cuBLASLt,dense,fp16,{m},{k},{n},{0.1 + m * k * n / 1e11},mine" for m, k, n in SMALL]
    (table := tmp_path / "t.csv").write_text("\n".join([TABLE_HEAD, *rows]) + "\n")
    fits = []
    for name, kernels in (("all", shipped_kernels()), ("without", [kernel for kernel in shipped_kernels() if kernel.key != key])):
        prior, out = tmp_path / f"{name}.yaml", tmp_path / f"{name}_out.yaml"
        prior.write_text(format_efficiency_file(kernels, [table], "dse calibrate"))
        assert main(["calibrate", str(table), "-o", str(out), "--prior", str(prior), "--samples", "2"]) == 0
        fits.append(load_efficiency_file(out).kernels)
    assert fits[0] == fits[1]
    assert [kernel.key for kernel in fits[0]] == [key]


def test_a_fit_is_valid_up_to_the_greatest_measured_k():
    kernel = few("dense", "fp16", [(1024, 2**k, 64) for k in (10, 12, 20)])
    (fit,) = fit_few_launches([kernel])
    assert kernel.model.max_k < fit.model.max_k == 2**20


def test_kernels_of_the_same_tables_predict_those_of_another_device(tmp_path):
    """Without a prior: a library with many launches on one device and four on another, which alone could not be fitted."""

    def rows(device, slower, shapes):
        times = [slower * (0.005 + m * k * n / 1e11) for m, k, n in shapes]
        return [f"{device},mine,dense,fp16,{m},{k},{n},{time},a test" for (m, k, n), time in zip(shapes, times, strict=True)]

    many = rows("rtx4090", 1.0, [(1024 * m, 1024, 64 * n) for m in range(1, 5) for n in range(1, 7)])
    (table := tmp_path / "t.csv").write_text("\n".join([TABLE_HEAD, *many, *rows("rtx4080", 1.6, SMALL[:4])]) + "\n")
    assert main(["calibrate", str(table), "-o", str(tmp_path / "out.yaml"), "--prior", "none", "--samples", "2"]) == 0
    kernels = load_efficiency_file(tmp_path / "out.yaml").kernels
    assert [(kernel.device, kernel.launches) for kernel in kernels] == [("rtx4090", 24), ("rtx4080", 4)]
    assert kernels[1].error < 0.1
