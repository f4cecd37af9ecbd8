"""Populations of kernels: means and spreads by hand, what a device tells of its other kernels, which shapes tell most, joint fits."""

from dataclasses import replace

import numpy as np
import pytest

import dse
from dse.base.dtype import parse_dtype
from dse.calibrate.fit.joint import JointFit, fit_jointly, population
from dse.calibrate.fit.parameters import NOISE, fit_parameters, posterior_deviation
from dse.calibrate.fit.shape_selection import choose_launches, remaining_deviation
from dse.calibrate.validate.left_out_devices import similar_to
from dse.cli import entry
from dse.model.efficiency.efficiency_file import shipped_kernels
from dse.model.efficiency.kernels.launches import KernelKey
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.parameters import PARAMETERS, PRIOR
from dse.model.efficiency.kernels.population import Population, similar_kernels
from dse.model.efficiency.kernels.selection import select_kernels
from dse.model.efficiency.kernels.transfer import predict_kernel
from dse.model.efficiency.parameter import Distribution
from dse.model.executions import list_executions
from tests.model.efficiency.kernels.launches import unmeasured_launches

A100 = dse.load_accelerator("a100-sxm4-80gb")
KEY = KernelKey("a100-sxm4-80gb", "tensor_core", "k", "", "dense", "fp16")
SHAPES = [(m, k, n) for m in (1024, 4096, 8192) for k in (512, 4096) for n in (8, 256, 4096)]


def same(value):
    return np.full(len(PARAMETERS), float(value))


def kernels(device_offsets, kernel_offsets):
    """Devices and thetas: the prior mean plus the offset of each device and of each of its kernels."""
    return zip(*[(f"d{n}", PRIOR.mean + d + k) for n, d in enumerate(device_offsets) for k in kernel_offsets], strict=True)


def test_many_devices_tell_mean_and_spread():
    """Of 200 devices with deviation 0.4 and three kernels each with deviation 0.1; devices count equally."""
    rng = np.random.default_rng(0)
    devices, thetas = kernels(1 + 0.4 * rng.standard_normal(200), (-0.1, 0.0, 0.1))
    of_all = Population.of(devices, np.array(thetas), np.zeros((600, len(PARAMETERS))))
    assert of_all.mean - PRIOR.mean == pytest.approx(same(1), abs=0.1)
    assert of_all.between_devices == pytest.approx(same(0.4), rel=0.15)
    assert of_all.between_kernels == pytest.approx(same(0.1 * np.sqrt(3 / 2 * 2 / 3 * 1)), rel=0.15)


def test_one_device_leaves_the_spread_to_the_prior():
    one = Population.of(["a"], PRIOR.mean[None] + 1, np.zeros((1, len(PARAMETERS))))
    assert one.between_devices == pytest.approx(0.5 * PRIOR.deviation)
    assert one.mean == pytest.approx(PRIOR.mean + 1)


def test_a_shipped_kernel_predicts_its_own_device_better_than_the_population_alone():
    """The clock of an RTX 4090 from its dense kernels, for its 2:4 kernels."""
    records = shipped_kernels()
    target = next(k for k in records if (k.device, k.family, k.dtype) == ("rtx4090", "*:4", "fp16"))
    elsewhere = [k for k in similar_kernels(target, records) if k.device != "rtx4090"]
    dense = [k for k in records if k.family == "dense"]
    _, with_device = predict_kernel(elsewhere, target.key, "gddr", [*dense, *elsewhere])
    _, without = predict_kernel(elsewhere, target.key, "gddr", elsewhere)
    launch = [p.name for p in PARAMETERS].index("launch")
    assert abs(with_device.theta - target.theta)[launch] < abs(without.theta - target.theta)[launch]
    assert np.all(with_device.device_deviation <= without.device_deviation + 1e-12)


@pytest.mark.parametrize(("pattern", "library"), [("dense", "cuBLASLt"), ("2:4", "cuSPARSELt")])
def test_a_device_without_kernels_has_the_prediction_that_left_out_devices_are_compared_with(pattern, library):
    """An H100 is predicted as one of the library that was measured on most devices, by the function of `dse validate`."""
    device, records = dse.load_accelerator("h100-sxm5-80gb"), shipped_kernels()
    execution = next(e for e in list_executions(device, parse_dtype("bf16"), "calibrated") if str(e.pattern) == pattern)
    selection = select_kernels(execution, execution.pattern, device, "bf16", records)
    key = KernelKey(device.name, "tensor_core", library, "", selection.kernels[0].family, "bf16")
    record, prediction = predict_kernel(similar_to(key, records), key, "hbm", records)
    assert selection.kernels[0].kernel == library
    np.testing.assert_allclose(selection.predictions[0].theta, prediction.theta)
    np.testing.assert_allclose(selection.predictions[0].distribution.deviation, prediction.distribution.deviation)
    assert selection.kernels[0].half_width == record.half_width


@pytest.mark.parametrize("noise", [NOISE, 0.4])
def test_chosen_shapes_tell_more_than_others(noise):
    """The mean variance after the greedy choice is below that of any shape alone, and of the first shapes of the list; by a brute force for
    one shape."""
    launches = unmeasured_launches(KEY, A100, SHAPES, "dense", 1.0)
    model = KernelModel(KEY, PRIOR.mean)
    remaining = [float((remaining_deviation(model, launches, PRIOR, [index], noise) ** 2).sum()) for index in range(len(launches))]
    assert choose_launches(model, launches, PRIOR, 1, noise) == [int(np.argmin(remaining))]
    chosen = choose_launches(model, launches, PRIOR, 4, noise)
    assert len(set(chosen)) == 4
    spread = [remaining_deviation(model, launches, PRIOR, some, noise).mean() for some in ([], chosen[:2], chosen, [0, 1, 2, 3])]
    assert spread[0] > spread[1] > spread[2]
    assert spread[3] > spread[2]


@pytest.mark.parametrize("noise", [NOISE, 0.4])
def test_the_remaining_deviation_is_that_of_a_linear_fit(noise):
    """The covariance after all launches equals the inverse of the information of prior and measurements."""
    launches = unmeasured_launches(KEY, A100, SHAPES, "dense", 1.0)
    model = KernelModel(KEY, PRIOR.mean)
    gradient = model.log_time_gradient(launches)
    information = gradient.T @ gradient / noise**2 + np.diag(PRIOR.deviation**-2.0)
    expected = np.sqrt(np.einsum("lp,pq,lq->l", gradient, np.linalg.inv(information), gradient))
    assert remaining_deviation(model, launches, PRIOR, list(range(len(launches))), noise) == pytest.approx(expected, rel=1e-6)


def test_a_joint_fit_agrees_where_single_fits_do_not():
    """Two devices whose small products tell the launch only: jointly both have the parameters of a third, which the prior misses."""
    truth = PRIOR.mean + PRIOR.deviation * np.where([p.name in ("fill", "operands") for p in PARAMETERS], 1.0, 0.0)
    fits = []
    for number, shapes in enumerate((SHAPES, [(64, 64, 64), (128, 64, 64), (64, 64, 128)])):
        key = replace(KEY, device=f"d{number}")
        launches = unmeasured_launches(key, A100, shapes, "dense", 1.0)
        measured = replace(launches, time=KernelModel(key, truth).predict_times(launches))
        fits.append(JointFit(fit_parameters(KernelModel(key, PRIOR.mean), measured, 100), measured))
    alone, jointly = fits[1].model.theta, next(fit for fit in fit_jointly(fits) if fit.model.key.device == "d1").model.theta
    fill = [p.name for p in PARAMETERS].index("fill")
    assert abs(jointly - truth)[fill] < 0.7 * abs(alone - truth)[fill]
    assert np.all(posterior_deviation(fits[0].model, fits[0].launches) <= PRIOR.deviation * (1 + 1e-9))
    assert isinstance(population(fits).distribution, Distribution)


def test_the_command_chooses_shapes_for_a_device_without_measurements(capsys):
    assert entry.main(["calibrate", "--few", "3", "--device", "h100-sxm5-80gb", "--pattern", "2:4"]) == 0
    output = capsys.readouterr().out
    assert "tensor_core.sparse_24" in output
    widths = [float(line.rsplit("+-", 1)[1].rstrip("%")) for line in output.splitlines() if "+-" in line]
    assert len(widths) == 4
    assert widths == sorted(widths, reverse=True)
    (command,) = [line for line in output.splitlines() if line.startswith("dse measure")]
    assert len(command.split("--shapes ")[1].split()) == 3


@pytest.mark.parametrize(("device", "dtype", "unit"), [("trainium2", "bf16", "tensor_engine"), ("tpu-v6e", "int8", "mxu")])
def test_the_command_chooses_shapes_for_a_unit_that_no_kernel_was_measured_on(device, dtype, unit, capsys):
    assert entry.main(["calibrate", "--few", "2", "--device", device, "--dtype", dtype]) == 0
    assert f"{unit}.dense" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("request_", "last_line"),
    [
        ("--pattern 2:4 --dtype int8", "'dse measure' has no kernel for '2:4' in 'int8'"),
        ("--pattern unstructured", "dse measure -o measured --warm --densities 0.25 --shapes "),
    ],
)
def test_the_last_line_says_how_the_chosen_shapes_can_be_measured(request_, last_line, capsys):
    assert entry.main(["calibrate", "--few", "1", "--device", "h100-sxm5-80gb", *request_.split()]) == 0
    assert last_line in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--few", "3"], "'--few' needs a device"),
        (["--few", "0", "--device", "rtx3090"], "0 shapes are out of range"),
        (["--few", "3", "--device", "rtx3091"], "did you mean 'rtx3090'?"),
        (["--few", "3", "--device", "h100-sxm5-80gb", "--pattern", "3:"], "3:"),
        (["--few", "3", "--device", "rtx4090", "--pattern", "3:", "--dtype", "fp17"], "--dtype: "),
        (["--few", "3", "--device", "rtx4090", "table.csv"], "'table.csv' has no effect with '--few'; leave it out"),
        (["--few", "3", "--device", "rtx4090", "-o", "e.yaml"], "-o: has no effect with '--few'; leave it out"),
        (["table.csv", "-o", "e.yaml", "--dtype", "int8"], "--dtype: has no effect without '--few'; leave it out"),
        ([], "the measurements or the output file are missing"),
    ],
)
def test_requests_that_cannot_be_answered_are_refused(capsys, arguments, message):
    assert entry.main(["calibrate", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_predicted_record_has_the_predicted_parameters():
    """Also where those of the kernels that it is predicted from were computed before, as they always are."""
    device = dse.load_accelerator("h100-sxm5-80gb")
    kernels = shipped_kernels()
    assert all(len(kernel.theta) for kernel in kernels)
    for execution in list_executions(device, parse_dtype("bf16"), "calibrated"):
        selection = select_kernels(execution, execution.pattern, device, "bf16", kernels)
        for record, prediction in zip(selection.kernels, selection.predictions, strict=True):
            np.testing.assert_allclose(record.theta, prediction.theta)
            np.testing.assert_allclose(record.model.theta, prediction.theta)
