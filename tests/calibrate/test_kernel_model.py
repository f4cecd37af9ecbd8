"""Kernel models: tiles and waves by hand, times that grow with the work and stay below the peak, gradients, fits of synthetic times."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.calibrate.fit_kernel import fit_kernel, fit_tiles_by_depth
from dse.calibrate.fit_parameters import bootstrap, find_determined_parameters, fit_parameters
from dse.calibrate.predictions import predict_checked
from dse.cli import entry
from dse.model.efficiency import assertions, kernel_time
from dse.model.efficiency.kernel_model import KernelModel
from dse.model.efficiency.launches import KernelKey
from dse.model.efficiency.parameters import LOWER_BOUND, PARAMETERS, PRIOR, UPPER_BOUND, theta_to_values, values_to_theta
from tests.calibrate.launches import predict_times, unmeasured_launches

A100 = dse.load_accelerator("a100-sxm4-80gb")
DENSE = KernelKey("a100-sxm4-80gb", "tensor_core", "k", "", "dense", "fp16")
CSR = replace(DENSE, unit="cuda_core", family="unstructured", dtype="fp32")
FAST = theta_to_values(PRIOR) | {
    "launch": 1.1e-7,
    "extra_stored": 1.1e-3,
    "extra_dense": 1.1e-5,
    "fill": 0.11,
    "edge": 0.11,
    "tail": 0.98,
    "bandwidth": 0.98,
}

thetas = st.lists(st.floats(0.001, 0.999), min_size=len(PARAMETERS), max_size=len(PARAMETERS)).map(
    lambda u: LOWER_BOUND + np.array(u) * (UPPER_BOUND - LOWER_BOUND)
)
sizes = st.integers(1, 5000)
kernels = st.sampled_from(
    [(DENSE, "dense", 1.0), (CSR, "unstructured", 0.07), (CSR, "unstructured", 0.5), (replace(DENSE, family="*:4"), "2:4", 0.5)]
)
tiles = st.sampled_from([None, *kernel_time.TILES])


def times_on_a100(model, shapes, pattern="dense", density=1.0):
    return model.predict_times(unmeasured_launches(model.key, A100, shapes, pattern, density))


def test_tiles_and_waves_by_hand():
    """108 tiles of 128 x 128 fill an A100 once; one more starts a second wave, which takes as long as the first."""
    model = KernelModel(DENSE, values_to_theta(FAST | {"tail": 0.99}), tile=(128, 128))
    full, more, twice = times_on_a100(model, [(128 * 12, 8192, 128 * 9), (128 * 109, 8192, 128), (128 * 12, 8192, 128 * 18)])
    ideal = 2 * 128 * 12 * 8192 * 128 * 9 / 312e12
    assert full == pytest.approx(ideal, rel=0.02)
    assert (more / full, twice / full) == (pytest.approx(2, rel=0.03), pytest.approx(2, rel=0.03))


def test_a_library_with_heuristics_of_its_own_uses_other_tiles_from_some_k_on():
    """The time of a range of k is that of its own tile, faster or slower; a fit finds the depths between the measured ones."""
    shapes = [(64 * a, k, 1000 + 300 * a) for k in (1024, 2048, 4096, 8192) for a in range(3, 9)]
    narrow = KernelModel(DENSE, values_to_theta(FAST | {"edge": 30, "launch": 3e-6}), (32, 32))
    wide = replace(narrow, tile=(128, 128))
    times = times_on_a100(replace(narrow, tiles_by_depth=((3000.0, (128, 128)),)), shapes)
    shallow = np.array([k < 3000 for _, k, _ in shapes])
    np.testing.assert_allclose(times, np.where(shallow, times_on_a100(narrow, shapes), times_on_a100(wide, shapes)))
    model = fit_kernel(replace(unmeasured_launches(DENSE, A100, shapes, "dense", 1.0), time=times))
    assert [k for k, _ in model.tiles_by_depth] == [pytest.approx(np.sqrt(2048 * 4096))]
    np.testing.assert_allclose(times_on_a100(model, shapes), times, rtol=0.06)


@pytest.mark.parametrize(("key", "pattern", "density"), [(DENSE, "dense", 1.0), (CSR, "unstructured", 0.1)])
def test_a_product_deeper_than_any_measured_one_is_as_efficient_as_the_deepest_measured_one(key, pattern, density):
    """Beyond the greatest measured k the time for each FLOP is constant; up to it predictions are those of the unclamped model."""
    shapes = [(512 * a, k, 1024 + 512 * a) for k in (512, 1024, 2048, 4096) for a in range(2, 7)]
    truth = KernelModel(key, values_to_theta(FAST | {"fill": 400}), (64, 64), tiles_by_depth=((1500.0, (128, 128)),))
    measured = unmeasured_launches(key, A100, shapes, pattern, density)
    model = fit_parameters(truth, replace(measured, time=truth.predict_times(measured)))
    unmeasured = unmeasured_launches(key, A100, [(2048, k, 2048) for k in (2048, 4096, 8192, 65536, 2**20)], pattern, density)
    launches = replace(unmeasured, row_spread=np.zeros(5))
    shallow, deepest, *deeper = model.predict_times(launches) / launches.flops
    assert model.max_k == 4096
    assert deeper == pytest.approx([deepest] * 3, rel=0.02)
    unclamped = replace(model, max_k=np.inf).predict_times(launches) / launches.flops
    assert (shallow, deepest) == (unclamped[0], unclamped[1])


def test_launches_without_weight_do_not_decide_from_which_k_other_tiles_are_used():
    """Neither their k nor their number of shapes counts."""
    shapes = [(64 * a, k, 1000 + 300 * a) for k in (1024, 2048, 4096, 8192) for a in range(3, 9)]
    narrow = KernelModel(DENSE, values_to_theta(FAST | {"edge": 30, "launch": 3e-6}), (32, 32))
    launches = unmeasured_launches(DENSE, A100, shapes, "dense", 1.0)
    measured = replace(launches, time=replace(narrow, tiles_by_depth=((3000.0, (128, 128)),)).predict_times(launches))
    weights = [(measured.k != 4096).astype(float), ((measured.k < 3000) | (measured.m == 192)).astype(float)]
    without_4096, one_deep_shape = (fit_tiles_by_depth(narrow, measured, weight).tiles_by_depth for weight in weights)
    assert without_4096 == ((pytest.approx(np.sqrt(2048 * 8192)), (128, 128)),)
    assert all(k < 2048 for k, _ in one_deep_shape)


def test_an_edge_tile_costs_as_much_as_a_full_one():
    model = KernelModel(DENSE, values_to_theta(FAST), tile=(128, 128))
    part, whole = times_on_a100(model, [(128 * 108 - 127, 4096, 128), (128 * 108, 4096, 128)])
    assert part == pytest.approx(whole, rel=0.01)  # except for the bytes


def test_load_imbalance_by_hand():
    launches = unmeasured_launches(CSR, A100, [(1080, 1000, 64)], "unstructured", 0.1)
    assert kernel_time.load_imbalance(replace(launches, row_spread=np.zeros(1))) == 1
    uneven = kernel_time.load_imbalance(replace(launches, row_spread=np.array([0.5])))
    assert uneven == pytest.approx(1 + 0.5 * np.sqrt(2 * np.log(108) / 10))  # ten rows a processor


def test_tiles_in_flight_by_hand():
    """17 and 25 KiB a tile: nine and six fit into the 164 KiB of an A100's processor; latency is proportional to the inverse."""
    launches = replace(
        unmeasured_launches(CSR, A100, [(4096, 4096, 4096)] * 3, "unstructured", 0.5), staged_bytes=1024 * np.array([17, 25, np.nan])
    )
    assert kernel_time.tiles_in_flight(launches).tolist() == [9, 6, np.inf]
    waiting = KernelModel(CSR, values_to_theta(FAST | {"flight": 900})).predict_times(launches)
    assert waiting[1] / waiting[0] == pytest.approx(9 / 6, rel=1e-3)
    assert waiting[0] == pytest.approx(4096**3 / 38.98e12 * 900 / 9, rel=0.02)
    busy = KernelModel(CSR, values_to_theta(FAST | {"flight": 0.1})).predict_times(launches)
    np.testing.assert_allclose(busy, busy[2], rtol=1e-6)


def test_the_scratchpad_of_a_tile_is_that_of_the_nearest_measured_density():
    model = KernelModel(CSR, values_to_theta(FAST | {"flight": 900}), staged_bytes=((0.125, 9 * 1024.0), (0.5, 17 * 1024.0)))
    sparse, dense, unknown = (
        each.predict_times(unmeasured_launches(CSR, A100, [(4096, 4096, 4096)], "unstructured", density))
        for each, density in ((model, 0.1), (model, 0.4), (replace(model, staged_bytes=()), 0.4))
    )
    assert dense / sparse == pytest.approx(4 * 18 / 9, rel=1e-3)
    assert unknown < 0.1 * dense


def test_row_statistics_make_an_uneven_matrix_slower():
    model = KernelModel(CSR, values_to_theta(FAST))
    even, uneven = (predict_times(A100, model, [(4096, 4096, 512)], "unstructured", 0.1, spread) for spread in (0.0, 1.0))
    assert uneven > 1.02 * even


@given(thetas, sizes, sizes, sizes, kernels, tiles, st.sampled_from("mkn"), st.integers(1, 3000), st.sampled_from([(), ((1.0, 25600.0),)]))
def test_more_work_is_never_faster(theta, m, k, n, chosen, tile, which, more, staged):
    key, pattern, density = chosen
    larger = (m + more * (which == "m"), k + 4 * more * (which == "k"), n + more * (which == "n"))
    before, after = times_on_a100(
        KernelModel(key, theta, tile, staged_bytes=staged), [(m, 4 * k, n), (larger[0], larger[1] + 3 * k, larger[2])], pattern, density
    )
    assert after >= before * (1 - 1e-9)


def test_a_deeper_product_is_never_faster_because_k_is_split():
    """The cost of splits is added to the prologue of an output; as a factor of it the shallowest products would take longest."""
    model = KernelModel(DENSE, values_to_theta(FAST | {"fill": 400, "split": 1.2}), min_edge=128)
    times = times_on_a100(model, [(128, k, 128) for k in range(4, 1024, 20)])
    assert np.all(np.diff(times) >= -1e-12 * times[1:])


@given(thetas, sizes, sizes, sizes, kernels, tiles)
def test_no_rate_exceeds_the_peak_or_the_bandwidth(theta, m, k, n, chosen, tile):
    key, pattern, density = chosen
    launches = unmeasured_launches(key, A100, [(m, 4 * k, n)], pattern, density)
    time = predict_checked(KernelModel(key, theta, tile), launches)  # raises by itself
    assert np.all(time >= launches.product.compulsory_bytes / launches.rates.bandwidth)


@given(thetas, st.floats(0.02, 0.98), st.floats(1.01, 5))
def test_denser_is_never_faster(theta, density, factor):
    """For matrices with equal rows: a dense one has no imbalance."""
    launches = [unmeasured_launches(CSR, A100, [(2048, 2048, 512)], "unstructured", d) for d in (density, min(1.0, density * factor))]
    sparse, denser = (KernelModel(CSR, theta).predict_times(replace(launch, row_spread=np.zeros(1))) for launch in launches)
    assert denser >= sparse * (1 - 1e-9)


def test_padded_slots_run_as_the_next_power_of_two():
    key = replace(DENSE, unit="cuda_core", dtype="fp32", family="*:32")
    slow, exact = (KernelModel(key, PRIOR, pads_to_power_of_two=power) for power in (True, False))
    as_12, as_16 = (times_on_a100(slow, [(4096, 4096, 1024)], f"{n}:32", n / 32) for n in (12, 16))
    assert as_12 == pytest.approx(as_16, rel=0.02)
    assert times_on_a100(exact, [(4096, 4096, 1024)], "12:32", 12 / 32) < 0.9 * as_12


def test_gradients_equal_finite_differences():
    launches = unmeasured_launches(CSR, A100, [(4096, 1024, 512), (700, 3000, 100)], "unstructured", 0.2)
    with jax.enable_x64(True):
        features, allowed = kernel_time.launch_features(launches), kernel_time.allowed_tiles(None)
        theta = np.array(PRIOR)
        slopes = np.asarray(jax.jit(jax.jacfwd(lambda t: kernel_time.launch_time(t, features, allowed)))(theta))
        time = jax.jit(lambda t: kernel_time.launch_time(t, features, allowed))
        for number in range(len(theta)):
            step = np.eye(len(theta))[number] * 1e-5
            ends = [np.asarray(time(theta + sign * step)) for sign in (1, -1)]
            np.testing.assert_allclose(slopes[:, number], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-12)


def test_a_fit_recovers_the_parameters_of_synthetic_times():
    """Parameters that the times determine are recovered; others are marked as not determined."""
    truth = theta_to_values(PRIOR) | {"launch": 2e-5, "extra_stored": 0.8, "bandwidth": 0.6}
    rng = np.random.default_rng(0)
    shapes = [tuple(int(2**x) for x in rng.uniform(4, 13, 3)) for _ in range(120)]
    launches = unmeasured_launches(DENSE, A100, shapes, "dense", 1.0)
    measured = replace(launches, time=KernelModel(DENSE, values_to_theta(truth)).predict_times(launches))
    model = fit_kernel(measured)
    values = theta_to_values(model.theta)
    assert {name: values[name] for name in ("launch", "bandwidth")} == {
        "launch": pytest.approx(2e-5, rel=0.03), "bandwidth": pytest.approx(0.6, abs=0.02),
    }  # fmt: skip
    np.testing.assert_allclose(model.predict_times(measured), measured.time, rtol=0.02)
    is_determined = dict(zip(values, find_determined_parameters(model, measured), strict=True))
    assert is_determined["launch"]
    assert is_determined["bandwidth"]
    assert not is_determined["reuse"]  # nothing is gathered
    samples = bootstrap(model, replace(measured, time=measured.time * rng.lognormal(0, 0.1, len(measured))), 5).samples
    assert np.std([theta_to_values(theta)["launch"] for theta in samples]) > 0


def test_a_kernel_with_one_tile_is_recognised():
    """By its waves."""
    shapes = [(256 * a, 4096, 128 * b) for a in range(1, 8) for b in (3, 7, 13, 20, 33)]
    launches = unmeasured_launches(DENSE, A100, shapes, "dense", 1.0)
    measured = replace(
        launches, time=KernelModel(DENSE, values_to_theta(theta_to_values(PRIOR) | {"tail": 0.95}), tile=(256, 128)).predict_times(launches)
    )
    assert fit_kernel(measured).tile in {(256, 128), (128, 256)}  # these shapes hardly determine its orientation


def test_a_library_without_small_tiles_and_splits_is_recognised():
    """By the times of narrow products; those of others are then within a few percent."""
    rng = np.random.default_rng(1)
    shapes = [tuple(int(64 * 2**x) for x in rng.uniform(0, 6, 3)) for _ in range(40)]
    launches = unmeasured_launches(DENSE, A100, shapes, "dense", 1.0)
    truth = KernelModel(DENSE, values_to_theta(theta_to_values(PRIOR) | {"tail": 0.9}), splits_k=False, min_edge=64)
    measured = replace(launches, time=truth.predict_times(launches))
    model = fit_kernel(measured)
    assert (model.tile, model.splits_k, model.min_edge) == (None, False, 64)
    np.testing.assert_allclose(model.predict_times(measured), measured.time, rtol=0.02)


def test_unstated_processors_are_estimated_from_waves():
    rng = np.random.default_rng(3)
    shapes = [tuple(int(128 * 2**x) for x in rng.uniform(0, 5, 3)) for _ in range(40)]
    launches = unmeasured_launches(DENSE, A100, shapes, "dense", 1.0)
    time = KernelModel(DENSE, values_to_theta(theta_to_values(PRIOR) | {"tail": 0.9}), tile=(128, 128)).predict_times(launches)
    model = fit_kernel(replace(launches, time=time * rng.lognormal(0, 0.02, len(time)), rates=replace(launches.rates, processors=np.nan)))
    assert model.processors == pytest.approx(108, rel=0.05)
    np.testing.assert_allclose(model.predict_times(launches), time, rtol=0.1)
    unseen = replace(launches, time=launches.product.compulsory_bytes / launches.rates.bandwidth + 1e-3)  # no waves in it
    assert np.isnan(fit_kernel(replace(unseen, rates=replace(launches.rates, processors=np.nan))).processors)


def test_a_product_with_one_column_is_limited_by_its_bytes():
    """Narrow tiles keep a slow unit from computing 32 columns of which one is needed; synthetic times."""
    shapes = [(m, k, 1) for m in (1024, 3000, 4096, 11008) for k in (1024, 4096, 8192)]
    launches = unmeasured_launches(replace(DENSE, unit="cuda_core", dtype="fp32"), A100, shapes, "dense", 1.0)
    measured = replace(launches, time=2e-6 + launches.product.compulsory_bytes / (0.85 * launches.rates.bandwidth))
    np.testing.assert_allclose(fit_kernel(measured).predict_times(measured), measured.time, rtol=0.05)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (assertions.NotPositiveError, lambda: assertions.check_times([1e-3, 0.0], [1e9, 1e9], 1e15)),
        (assertions.NotPositiveError, lambda: assertions.check_times([np.nan], [1e9], 1e15)),
        (assertions.AbovePeakError, lambda: assertions.check_times([1e-6], [1e12], 1e15)),
        (assertions.EfficiencyError, lambda: assertions.check_efficiency([0.5, 1.2])),
        (assertions.EfficiencyError, lambda: assertions.check_efficiency([0.0])),
        (assertions.NotMonotoneError, lambda: assertions.check_monotone([1.0, 2.0, 1.9])),
    ],
)
def test_each_implausible_result_has_an_error_class(error, call):
    with pytest.raises(error):
        call()


def test_the_error_of_an_implausible_time_names_the_kernel():
    broken = KernelModel(DENSE, np.full(len(PARAMETERS), np.nan))
    with pytest.raises(assertions.NotPositiveError, match="a100-sxm4-80gb k dense fp16"):
        predict_times(A100, broken, [(64, 64, 64)], "dense")


def test_the_command_reports_an_implausible_time_by_its_error_class(monkeypatch, capsys):
    monkeypatch.setattr(KernelModel, "predict_times", lambda self, launches: np.full(len(launches), 1e-9))
    assert entry.main(["validate", "dense_fp16"]) == 1
    assert "AbovePeakError: a100-sxm4-80gb dense dense fp16: " in capsys.readouterr().err
