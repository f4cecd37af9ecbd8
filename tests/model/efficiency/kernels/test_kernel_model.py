"""Kernel models: tiles and waves by hand, times that grow with the work and stay below the peak, gradients, fits of synthetic times."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.calibrate.fit.kernel import fit_kernel
from dse.calibrate.fit.parameters import bootstrap, fit_parameters, posterior_deviation
from dse.calibrate.predictions import predict_checked
from dse.cli import entry
from dse.model.efficiency import assertions
from dse.model.efficiency.kernels.launches import KernelKey
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.parameters import LOWER_BOUND, PARAMETERS, PRIOR, TILES, UPPER_BOUND, kernel_theta, kernel_values
from dse.model.efficiency.kernels.time import (
    launch_components,
    launch_features,
    launch_time,
    load_imbalance,
    mask_tiles,
    sustained_clock,
    tiles_in_flight,
)
from tests.model.efficiency.kernels.launches import predict_times, unmeasured_launches

A100 = dse.load_accelerator("a100-sxm4-80gb")
UNLIMITED = dse.Accelerator.from_dict({**A100.document.data, "cost": {}})  # by no power
DENSE = KernelKey("a100-sxm4-80gb", "tensor_core", "k", "", "dense", "fp16")
CSR = replace(DENSE, unit="cuda_core", family="unstructured", dtype="fp32")
FAST = kernel_values(PRIOR.mean) | {
    "launch": 1.1e-7,
    "extra_stored": 1.1e-3,
    "extra_dense": 1.1e-5,
    "fill": 0.11,
    "edge": 0.011,
    "operands": 1.1,
    "resident": 1.1e-3,
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
tiles = st.sampled_from([None, *TILES])


def times_on_a100(model, shapes, pattern="dense", density=1.0):
    return model.predict_times(unmeasured_launches(model.key, UNLIMITED, shapes, pattern, density))


def test_tiles_and_waves_by_hand():
    """108 tiles of 128 x 128 fill an A100 once; one more starts a second wave, which takes as long as the first."""
    model = KernelModel(DENSE, kernel_theta(FAST | {"tail": 0.99}), tile=(128, 128))
    full, more, twice = times_on_a100(model, [(128 * 12, 8192, 128 * 9), (128 * 109, 8192, 128), (128 * 12, 8192, 128 * 18)])
    ideal = 2 * 128 * 12 * 8192 * 128 * 9 / 312e12
    assert full == pytest.approx(ideal, rel=0.02)
    assert (more / full, twice / full) == (pytest.approx(2, rel=0.03), pytest.approx(2, rel=0.03))


@pytest.mark.parametrize(("key", "pattern", "density"), [(DENSE, "dense", 1.0), (CSR, "unstructured", 0.1)])
def test_a_product_deeper_than_any_measured_one_is_as_efficient_as_the_deepest_measured_one(key, pattern, density):
    """Beyond the greatest measured k the time for each FLOP is constant; up to it predictions are those of the unclamped model."""
    shapes = [(512 * a, k, 1024 + 512 * a) for k in (512, 1024, 2048, 4096) for a in range(2, 7)]
    truth = KernelModel(key, kernel_theta(FAST | {"fill": 400}), (64, 64))
    measured = unmeasured_launches(key, A100, shapes, pattern, density)
    model = fit_parameters(truth, replace(measured, time=truth.predict_times(measured)))
    unmeasured = unmeasured_launches(key, A100, [(2048, k, 2048) for k in (2048, 4096, 8192, 65536, 2**20)], pattern, density)
    launches = replace(unmeasured, row_spread=np.zeros(5))
    shallow, deepest, *deeper = model.predict_times(launches) / launches.flops
    assert model.max_k == 4096
    assert deeper == pytest.approx([deepest] * 3, rel=0.02)
    unclamped = replace(model, max_k=np.inf).predict_times(launches) / launches.flops
    assert (shallow, deepest) == (unclamped[0], unclamped[1])


def test_an_edge_tile_costs_as_much_as_a_full_one():
    model = KernelModel(DENSE, kernel_theta(FAST), tile=(128, 128))
    part, whole = times_on_a100(model, [(128 * 108 - 127, 4096, 128), (128 * 108, 4096, 128)])
    assert part == pytest.approx(whole, rel=0.01)  # except for the bytes


def test_load_imbalance_by_hand():
    launches = unmeasured_launches(CSR, A100, [(1080, 1000, 64)], "unstructured", 0.1)
    assert load_imbalance(replace(launches, row_spread=np.zeros(1))) == 1
    uneven = load_imbalance(replace(launches, row_spread=np.array([0.5])))
    assert uneven == pytest.approx(1 + 0.5 * np.sqrt(2 * np.log(108) / 10))  # ten rows a processor


def test_tiles_in_flight_by_hand():
    """17 and 25 KiB a tile: nine and six fit into the 164 KiB of an A100's processor; latency is proportional to the inverse."""
    launches = replace(
        unmeasured_launches(CSR, UNLIMITED, [(4096, 4096, 4096)] * 3, "unstructured", 0.5), staged_bytes=1024 * np.array([17, 25, np.nan])
    )
    assert tiles_in_flight(launches).tolist() == [9, 6, np.inf]
    waiting = KernelModel(CSR, kernel_theta(FAST | {"flight": 900})).predict_times(launches)
    assert waiting[1] / waiting[0] == pytest.approx(9 / 6, rel=1e-3)
    assert waiting[0] == pytest.approx(4096**3 / 38.98e12 * 900 / 9, rel=0.02)
    busy = KernelModel(CSR, kernel_theta(FAST | {"flight": 0.1})).predict_times(launches)
    np.testing.assert_allclose(busy, busy[2], rtol=1e-6)


def test_additions_of_a_row_that_wait_for_each_other_by_hand():
    """Each of the 1000 nonzeros of a row waits for 1000, ten multiply-adds each; rows that fill a scratchpad wait 1.63 times as
    long. Kernels that gather nothing do not wait."""
    waiting = kernel_theta(FAST | {"contention": 10.0, "crowding": 1.0})
    short, long, wide = times_on_a100(
        KernelModel(CSR, waiting), [(8192, 4000, 1), (8192, 400_000, 1), (8192, 4000, 3)], "unstructured", 0.25
    )
    multiply_add = 2 / 38.98e12  # at the rate of issue slots
    assert short == pytest.approx(8192 * 1000 * 1000 * 10 * multiply_add, rel=0.01)
    assert long == pytest.approx(1.63 * 100**2 * short, rel=0.01)  # 781 KiB of 164
    assert wide == pytest.approx(3 * short, rel=0.01)
    sparse = replace(DENSE, family="*:4")
    alone, other = (
        times_on_a100(KernelModel(sparse, kernel_theta(each)), [(8192, 4000, 1)], "2:4", 0.5)
        for each in (FAST, FAST | {"contention": 10.0})
    )
    assert alone == other


def test_the_scratchpad_of_a_tile_is_that_of_the_nearest_measured_density():
    model = KernelModel(CSR, kernel_theta(FAST | {"flight": 900}), staged_bytes=((0.125, 9 * 1024.0), (0.5, 17 * 1024.0)))
    sparse, dense, unknown = (
        each.predict_times(unmeasured_launches(CSR, A100, [(4096, 4096, 4096)], "unstructured", density))
        for each, density in ((model, 0.1), (model, 0.4), (replace(model, staged_bytes=()), 0.4))
    )
    assert dense / sparse == pytest.approx(4 * 18 / 9, rel=1e-3)
    assert unknown < 0.1 * dense


def test_row_statistics_make_an_uneven_matrix_slower():
    model = KernelModel(CSR, kernel_theta(FAST))
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
    model = KernelModel(DENSE, kernel_theta(FAST | {"fill": 400, "split": 1.2}), min_edge=128)
    times = times_on_a100(model, [(128, k, 128) for k in range(4, 1024, 20)])
    assert np.all(np.diff(times) >= -1e-12 * times[1:])


@given(thetas, sizes, sizes, sizes, kernels, tiles)
def test_no_rate_exceeds_the_peak_or_the_bandwidth(theta, m, k, n, chosen, tile):
    key, pattern, density = chosen
    launches = unmeasured_launches(key, A100, [(m, 4 * k, n)], pattern, density)
    model = KernelModel(key, theta, tile)
    predict_checked(model, launches)  # raises by itself
    moved_bytes = launches.product.compulsory_bytes
    _, _, memory = model.time_components(launches, moved_bytes)
    assert np.all(memory >= moved_bytes / launches.rates.bandwidth)


def test_repeated_launches_find_small_operands_in_the_cache_and_cold_ones_none():
    """2 MB take a tenth of the time of DRAM or less where they are resident; 2 GB take all of it."""
    model = KernelModel(DENSE, kernel_theta(FAST | {"resident": 0.5}))
    for size, share in ((512, 0.01), (16384, 1.0)):
        launches = unmeasured_launches(DENSE, UNLIMITED, [(size, size, size)], "dense", 1.0)
        features = launch_features(launches)
        with jax.enable_x64(True):
            _, _, memory = launch_components(model.theta, features, model.allowed_tiles)
        assert memory == pytest.approx(share * features.memory / 0.98, rel=0.02, abs=0.01 * float(features.memory[0]))
        cold = model.time_components(launches, launches.product.compulsory_bytes)[2]
        assert cold == pytest.approx(launches.product.compulsory_bytes / launches.rates.bandwidth / 0.98, rel=1e-6)


def test_weights_that_are_multiplied_in_turn_occupy_the_cache_together():
    """Six matrices of 8 MiB leave as much of a cache of 40 MB as one of 48 MiB does; of its bytes each launch moves those of one."""
    model = KernelModel(DENSE, kernel_theta(FAST | {"resident": 0.5}))
    alone, large = (unmeasured_launches(DENSE, UNLIMITED, [(rows, 2048, 1)], "dense", 1.0) for rows in (2048, 6 * 2048))
    in_turn = replace(alone, weight_copies=np.array([6.0]))
    features = [model.padded_features(launches) for launches in (alone, in_turn, large)]
    assert [f.memory[0] for f in features[:2]] == [features[0].memory[0]] * 2
    assert features[1].cache_share[0] == pytest.approx(features[2].cache_share[0], rel=0.01)
    times = [float(model.predict_times(launches)[0]) for launches in (alone, in_turn)]
    assert times[0] < 0.5 * times[1]


def test_the_clock_falls_with_the_cube_root_of_the_power_above_the_limit():
    """Eight times the power that the limit allows: half the clock. Far below the limit: the highest clock. An unknown limit: that of the peak."""
    assert sustained_clock(8e-12, 1e-12, 1.1) == pytest.approx(0.5, rel=1e-3)
    assert sustained_clock(1e-13, 1e-11, 1.1) == pytest.approx(1.1, rel=1e-3)
    assert sustained_clock(1e-12, np.nan, 1.1) == 1
    slow, fast = (
        KernelModel(DENSE, kernel_theta(FAST | {"energy": 1.28e-12 * ratio})).predict_times(
            unmeasured_launches(DENSE, A100, [(8192, 8192, 8192)], "dense", 1.0)
        )
        for ratio in (8, 0.1)
    )
    assert slow / fast == pytest.approx(2, rel=0.02)


def test_operands_by_hand():
    """A tile of 128 x 128 with an `edge` of 256 loads twice as long as it multiplies, one of 256 x 256 as long."""
    for tile, ratio in (((128, 128), (2**4 + 1) ** 0.25), ((256, 256), 2**0.25)):
        model = KernelModel(DENSE, kernel_theta(FAST | {"operands": 256}), tile)
        (time,) = times_on_a100(model, [(256 * 27, 8192, 256 * 4 * 8)])
        assert time == pytest.approx(ratio * 2 * 256 * 27 * 8192 * 256 * 32 / 312e12, rel=0.02)


@given(thetas, st.floats(0.02, 0.98), st.floats(1.01, 5))
def test_denser_is_never_faster(theta, density, factor):
    """For matrices with equal rows: a dense one has no imbalance."""
    launches = [unmeasured_launches(CSR, A100, [(2048, 2048, 512)], "unstructured", d) for d in (density, min(1.0, density * factor))]
    sparse, denser = (KernelModel(CSR, theta).predict_times(replace(launch, row_spread=np.zeros(1))) for launch in launches)
    assert denser >= sparse * (1 - 1e-9)


def test_padded_slots_run_as_the_next_power_of_two():
    key = replace(DENSE, unit="cuda_core", dtype="fp32", family="*:32")
    slow, exact = (KernelModel(key, PRIOR.mean, pads_to_power_of_two=power) for power in (True, False))
    as_12, as_16 = (times_on_a100(slow, [(4096, 4096, 1024)], f"{n}:32", n / 32) for n in (12, 16))
    assert as_12 == pytest.approx(as_16, rel=0.02)
    assert times_on_a100(exact, [(4096, 4096, 1024)], "12:32", 12 / 32) < 0.9 * as_12


def test_gradients_equal_finite_differences():
    launches = unmeasured_launches(CSR, A100, [(4096, 1024, 512), (700, 3000, 100)], "unstructured", 0.2)
    with jax.enable_x64(True):
        features, allowed = launch_features(launches), mask_tiles(None)
        theta = np.array(PRIOR.mean)
        slopes = np.asarray(jax.jit(jax.jacfwd(lambda t: launch_time(t, features, allowed)))(theta))
        time = jax.jit(lambda t: launch_time(t, features, allowed))
        for number in range(len(theta)):
            step = np.eye(len(theta))[number] * 1e-5
            ends = [np.asarray(time(theta + sign * step)) for sign in (1, -1)]
            np.testing.assert_allclose(slopes[:, number], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-12)


def test_a_fit_recovers_the_parameters_of_synthetic_times():
    """Parameters that the times determine are recovered; others are marked as not determined."""
    truth = kernel_values(PRIOR.mean) | {"launch": 2e-5, "extra_stored": 0.8, "bandwidth": 0.6}
    rng = np.random.default_rng(0)
    shapes = [tuple(int(2**x) for x in rng.uniform(4, 13, 3)) for _ in range(120)]
    launches = unmeasured_launches(DENSE, A100, shapes, "dense", 1.0)
    measured = replace(launches, time=KernelModel(DENSE, kernel_theta(truth)).predict_times(launches))
    model = fit_kernel(measured)
    values = kernel_values(model.theta)
    assert {name: values[name] for name in ("launch", "bandwidth")} == {
        "launch": pytest.approx(2e-5, rel=0.03), "bandwidth": pytest.approx(0.6, abs=0.02),
    }  # fmt: skip
    np.testing.assert_allclose(model.predict_times(measured), measured.time, rtol=0.03)
    narrowed = dict(zip(values, posterior_deviation(model, measured) / PRIOR.deviation, strict=True))
    assert narrowed["launch"] < 0.1
    assert narrowed["bandwidth"] < 0.5
    assert narrowed["reuse"] == pytest.approx(1)  # nothing is gathered
    samples = bootstrap(model, replace(measured, time=measured.time * rng.lognormal(0, 0.1, len(measured))), 5).samples
    assert np.std([kernel_values(theta)["launch"] for theta in samples]) > 0


def test_a_kernel_with_one_tile_is_recognised():
    """By its waves."""
    shapes = [(256 * a, 4096, 128 * b) for a in range(1, 8) for b in (3, 7, 13, 20, 33)]
    launches = unmeasured_launches(DENSE, A100, shapes, "dense", 1.0)
    measured = replace(
        launches,
        time=KernelModel(DENSE, kernel_theta(kernel_values(PRIOR.mean) | {"tail": 0.95}), tile=(256, 128)).predict_times(launches),
    )
    assert fit_kernel(measured).tile in {(256, 128), (128, 256)}  # these shapes hardly determine its orientation


def test_a_library_without_small_tiles_and_splits_is_recognised():
    """By the times of narrow products; those of others are then within a few percent."""
    rng = np.random.default_rng(1)
    shapes = [tuple(int(64 * 2**x) for x in rng.uniform(0, 6, 3)) for _ in range(40)]
    launches = unmeasured_launches(DENSE, A100, shapes, "dense", 1.0)
    truth = KernelModel(DENSE, kernel_theta(kernel_values(PRIOR.mean) | {"tail": 0.9}), splits_k=False, min_edge=64)
    measured = replace(launches, time=truth.predict_times(launches))
    model = fit_kernel(measured)
    assert (model.tile, model.splits_k, model.min_edge) == (None, False, 64)
    np.testing.assert_allclose(model.predict_times(measured), measured.time, rtol=0.02)


def test_unstated_processors_are_estimated_from_waves():
    rng = np.random.default_rng(3)
    shapes = [tuple(int(128 * 2**x) for x in rng.uniform(0, 5, 3)) for _ in range(40)]
    launches = unmeasured_launches(DENSE, A100, shapes, "dense", 1.0)
    time = KernelModel(DENSE, kernel_theta(kernel_values(PRIOR.mean) | {"tail": 0.9}), tile=(128, 128)).predict_times(launches)
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
    predicted = fit_kernel(measured).predict_times(measured)
    np.testing.assert_allclose(predicted, measured.time, rtol=0.2)
    is_large = launches.product.compulsory_bytes > 20e6  # smaller ones may have been in the cache
    np.testing.assert_allclose(predicted[is_large], measured.time[is_large], rtol=0.05)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (assertions.NotPositiveError, lambda: assertions.check_times([1e-3, 0.0], [1e9, 1e9], 1e15)),
        (assertions.NotPositiveError, lambda: assertions.check_times([np.nan], [1e9], 1e15)),
        (assertions.AbovePeakError, lambda: assertions.check_times([1e-6], [1.01e9], 1e15)),
        (assertions.EfficiencyError, lambda: assertions.check_efficiency([0.5, 1.01])),
        (assertions.EfficiencyError, lambda: assertions.check_efficiency([0.5, 1.2], max_clock=1.1)),
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
