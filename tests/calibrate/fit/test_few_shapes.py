"""Intervals of kernels with few measured shapes, and which shapes to measure first."""

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import t as student_t

import dse
from dse.calibrate.fit.intervals import half_widths_of, similar_to_few
from dse.calibrate.fit.joint import JointFit
from dse.calibrate.fit.parameters import posterior_deviation
from dse.cli.entry import main
from dse.model.efficiency.efficiency_file import load_efficiency_file, shipped_kernels
from dse.model.efficiency.kernels.population import Population
from tests.model.efficiency.kernels.launches import unmeasured_launches

DEVICE = dse.load_accelerator("rtx4090")
RECORD = next(k for k in shipped_kernels() if (k.device, k.family, k.dtype) == ("rtx4090", "dense", "fp16"))
OTHERS = [kernel for kernel in shipped_kernels() if kernel.device != "rtx4090"]
SHAPES = [(1024 * a, 1024 * b, 64 * c) for a, b, c in [(4, 4, 1), (8, 2, 16), (2, 8, 4), (4, 14, 64), (14, 4, 32), (1, 1, 8), (8, 8, 2)]]


def fit(count, error=0.0):
    """A kernel whose times deviate from its parameters by factors of 1 +- `error`, in turn."""
    model, prior = replace(RECORD.model, discrepancy=None), Population.of_records(OTHERS).distribution
    launches = unmeasured_launches(RECORD.key, DEVICE, SHAPES[:count], "dense", 1.0)
    return JointFit(model, replace(launches, time=model.predict_times(launches) * (1 + error * (-1.0) ** np.arange(count))), prior)


def test_the_interval_of_few_shapes_changes_gradually_with_their_number():
    widths = [half_widths_of(fit(count, 0.1), OTHERS).of_parameters for count in range(2, 8)]
    assert np.all(np.abs(np.diff(np.log(widths))) < np.log(1.6)), widths


def test_the_interval_of_few_shapes_grows_with_their_residuals():
    small, large = (half_widths_of(fit(5, error), OTHERS).of_parameters for error in (0.02, 0.3))
    assert small < large
    assert large > np.log(1.3)


@pytest.mark.parametrize(("count", "has_prior"), [(4, True), (25, False)])
def test_only_kernels_with_few_shapes_have_a_prior_of_widths(count, has_prior):
    shapes = [(1024, 1024, 64 * n) for n in range(1, count + 1)]
    launches = unmeasured_launches(RECORD.key, DEVICE, shapes, "dense", 1.0)
    assert bool(similar_to_few(fit(2)._replace(launches=launches), OTHERS)) is has_prior


def test_the_interval_of_one_shape_is_that_of_similar_kernels_and_of_open_parameters():
    """Student's t with the two degrees of freedom of similar kernels."""
    single = fit(1)
    open_deviation = np.linalg.norm(single.model.log_time_gradient(single.launches) * posterior_deviation(*single))
    of_similar = np.median([kernel.half_width for kernel in similar_to_few(single, OTHERS)]) / NormalDist().inv_cdf(0.95)
    expected = student_t.ppf(0.95, 2) * np.hypot(of_similar, open_deviation)
    assert half_widths_of(single, OTHERS).of_parameters == pytest.approx(expected)


def test_an_interval_widens_away_from_the_few_shapes(tmp_path):
    """Though similar kernels were measured there: how long a launch takes on this device, large products do not show."""
    large = [(4096, 4096, 1024 * n) for n in range(1, 6)]
    launches = unmeasured_launches(RECORD.key, DEVICE, large, "dense", 1.0)
    times = 1e3 * RECORD.model.predict_times(launches)
    rows = [f"rtx4090,cuBLASLt,dense,fp16,{m},{k},{n},{time},a test" for (m, k, n), time in zip(large, times, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["device,kernel,pattern,dtype,m,k,n,time_ms,source", *rows]) + "\n")
    assert main(["calibrate", str(tmp_path / "t.csv"), "-o", str(tmp_path / "out.yaml"), "--samples", "2"]) == 0
    (record,) = load_efficiency_file(tmp_path / "out.yaml").kernels
    measured, small = record.interval_half_width(unmeasured_launches(RECORD.key, DEVICE, [large[0], (512, 512, 512)], "dense", 1.0))
    assert small > 2 * measured
