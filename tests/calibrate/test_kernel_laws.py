"""Laws of the time of a launch: hand-computed tiles and waves, monotone in the work, never above the peak, gradients, alarms."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.calibrate import predict
from dse.calibrate.fit import bootstrap, by_depth, fit, informed, refit
from dse.calibrate.measured_launches import asked
from dse.cli import entry
from dse.model.efficiency import assertions, kernel_time
from dse.model.efficiency.kernel_model import KernelModel
from dse.model.efficiency.launches import KernelKey
from dse.model.efficiency.parameters import HIGH, LOW, PARAMETERS, PRIOR, from_values, values
from dse.sparsity.grammar import parse

A100 = dse.load_accelerator("a100-sxm4-80gb")
DENSE = KernelKey("a100-sxm4-80gb", "tensor_core", "k", "", "dense", "fp16")
CSR = replace(DENSE, unit="cuda_core", family="unstructured", dtype="fp32")
FREE = values(PRIOR) | {
    "launch": 1.1e-7,
    "extra_stored": 1.1e-3,
    "extra_dense": 1.1e-5,
    "fill": 0.11,
    "edge": 0.11,
    "tail": 0.98,
    "bandwidth": 0.98,
}

thetas = st.lists(st.floats(0.001, 0.999), min_size=len(PARAMETERS), max_size=len(PARAMETERS)).map(
    lambda u: LOW + np.array(u) * (HIGH - LOW)
)
sizes = st.integers(1, 5000)
kernels = st.sampled_from(
    [(DENSE, "dense", 1.0), (CSR, "unstructured", 0.07), (CSR, "unstructured", 0.5), (replace(DENSE, family="*:4"), "2:4", 0.5)]
)
tiles = st.sampled_from([None, *kernel_time.TILES])


def seconds(fitted, shapes, pattern="dense", density=1.0):
    return fitted.seconds(asked(fitted.key, A100, shapes, parse(pattern), density))


def test_tiles_and_waves_by_hand():
    """108 tiles of 128 x 128 fill an A100 once; one more starts a second wave, which takes as long as the first."""
    fitted = KernelModel(DENSE, from_values(FREE | {"tail": 0.99}), tile=(128, 128))
    full, more, twice = seconds(fitted, [(128 * 12, 8192, 128 * 9), (128 * 109, 8192, 128), (128 * 12, 8192, 128 * 18)])
    ideal = 2 * 128 * 12 * 8192 * 128 * 9 / 312e12
    assert full == pytest.approx(ideal, rel=0.02)
    assert (more / full, twice / full) == (pytest.approx(2, rel=0.03), pytest.approx(2, rel=0.03))


def test_a_library_by_rules_of_its_own_takes_other_tiles_for_deeper_products():
    """The time of a range of k is that of its own tile, faster or slower; a fit finds the depths between the measured ones."""
    shapes = [(64 * a, k, 1000 + 300 * a) for k in (1024, 2048, 4096, 8192) for a in range(3, 9)]
    narrow = KernelModel(DENSE, from_values(FREE | {"edge": 30, "launch": 3e-6}), (32, 32))
    wide = replace(narrow, tile=(128, 128))
    times = seconds(replace(narrow, deeper=((3000.0, (128, 128)),)), shapes)
    shallow = np.array([k < 3000 for _, k, _ in shapes])
    np.testing.assert_allclose(times, np.where(shallow, seconds(narrow, shapes), seconds(wide, shapes)))
    found = fit(replace(asked(DENSE, A100, shapes, parse("dense"), 1.0), time=times))
    assert [least for least, _ in found.deeper] == [pytest.approx(np.sqrt(2048 * 4096))]
    np.testing.assert_allclose(seconds(found, shapes), times, rtol=0.06)


@pytest.mark.parametrize(("key", "pattern", "density"), [(DENSE, "dense", 1.0), (CSR, "unstructured", 0.1)])
def test_a_product_deeper_than_any_measured_one_is_as_efficient_as_the_deepest_measured_one(key, pattern, density):
    """Beyond the greatest fitted k the time for each FLOP is constant; up to it predictions are those of the unclamped model."""
    shapes = [(512 * a, k, 1024 + 512 * a) for k in (512, 1024, 2048, 4096) for a in range(2, 7)]
    truth = KernelModel(key, from_values(FREE | {"fill": 400}), (64, 64), deeper=((1500.0, (128, 128)),))
    measured = asked(key, A100, shapes, parse(pattern), density)
    fitted = refit(truth, replace(measured, time=truth.seconds(measured)))
    unmeasured = asked(key, A100, [(2048, k, 2048) for k in (2048, 4096, 8192, 65536, 2**20)], parse(pattern), density)
    launches = replace(unmeasured, spread=np.zeros(5))
    shallow, deepest, *deeper = fitted.seconds(launches) / launches.flops
    assert fitted.max_k == 4096
    assert deeper == pytest.approx([deepest] * 3, rel=0.02)
    unclamped = replace(fitted, max_k=np.inf).seconds(launches) / launches.flops
    assert (shallow, deepest) == (unclamped[0], unclamped[1])


def test_launches_without_weight_do_not_decide_from_which_depth_other_tiles_are_used():
    """Neither their k nor their number of shapes counts."""
    shapes = [(64 * a, k, 1000 + 300 * a) for k in (1024, 2048, 4096, 8192) for a in range(3, 9)]
    narrow = KernelModel(DENSE, from_values(FREE | {"edge": 30, "launch": 3e-6}), (32, 32))
    launches = asked(DENSE, A100, shapes, parse("dense"), 1.0)
    measured = replace(launches, time=replace(narrow, deeper=((3000.0, (128, 128)),)).seconds(launches))
    weights = [(measured.k != 4096).astype(float), ((measured.k < 3000) | (measured.m == 192)).astype(float)]
    without_4096, one_deep_shape = (by_depth(narrow, measured, weight).deeper for weight in weights)
    assert without_4096 == ((pytest.approx(np.sqrt(2048 * 8192)), (128, 128)),)
    assert all(least < 2048 for least, _ in one_deep_shape)


def test_an_edge_tile_costs_as_much_as_a_full_one():
    fitted = KernelModel(DENSE, from_values(FREE), tile=(128, 128))
    part, whole = seconds(fitted, [(128 * 108 - 127, 4096, 128), (128 * 108, 4096, 128)])
    assert part == pytest.approx(whole, rel=0.01)  # but for the bytes


def test_imbalance_follows_the_rows():
    launches = asked(CSR, A100, [(1080, 1000, 64)], parse("unstructured"), 0.1)
    assert kernel_time.imbalance(replace(launches, spread=np.zeros(1))) == 1
    uneven = kernel_time.imbalance(replace(launches, spread=np.array([0.5])))
    assert uneven == pytest.approx(1 + 0.5 * np.sqrt(2 * np.log(108) / 10))  # ten rows a processor


def test_tiles_in_flight_by_hand():
    """17 and 25 KiB a tile: nine and six fit into the 164 KiB of an A100's processor; where latency binds, time goes as their inverse."""
    launches = replace(asked(CSR, A100, [(4096, 4096, 4096)] * 3, parse("unstructured"), 0.5), staged=1024 * np.array([17, 25, np.nan]))
    assert kernel_time.in_flight(launches).tolist() == [9, 6, np.inf]
    waiting = KernelModel(CSR, from_values(FREE | {"flight": 900})).seconds(launches)
    assert waiting[1] / waiting[0] == pytest.approx(9 / 6, rel=1e-3)
    assert waiting[0] == pytest.approx(4096**3 / 38.98e12 * 900 / 9, rel=0.02)
    busy = KernelModel(CSR, from_values(FREE | {"flight": 0.1})).seconds(launches)
    np.testing.assert_allclose(busy, busy[2], rtol=1e-6)


def test_what_tiles_stage_is_known_of_the_kernel():
    """Launches that nobody measured take as much as those at the nearest density did."""
    fitted = KernelModel(CSR, from_values(FREE | {"flight": 900}), staged=((0.125, 9 * 1024.0), (0.5, 17 * 1024.0)))
    sparse, dense, silent = (
        one.seconds(asked(CSR, A100, [(4096, 4096, 4096)], parse("unstructured"), density))
        for one, density in ((fitted, 0.1), (fitted, 0.4), (replace(fitted, staged=()), 0.4))
    )
    assert dense / sparse == pytest.approx(4 * 18 / 9, rel=1e-3)
    assert silent < 0.1 * dense


def test_row_statistics_make_an_uneven_matrix_slower():
    fitted = KernelModel(CSR, from_values(FREE))
    even, uneven = (predict.seconds(A100, fitted, [(4096, 4096, 512)], "unstructured", 0.1, spread) for spread in (0.0, 1.0))
    assert uneven > 1.02 * even


@given(thetas, sizes, sizes, sizes, kernels, tiles, st.sampled_from("mkn"), st.integers(1, 3000), st.sampled_from([(), ((1.0, 25600.0),)]))
def test_more_work_is_never_faster(theta, m, k, n, chosen, tile, which, more, staged):
    key, pattern, density = chosen
    larger = (m + more * (which == "m"), k + 4 * more * (which == "k"), n + more * (which == "n"))
    before, after = seconds(
        KernelModel(key, theta, tile, staged=staged), [(m, 4 * k, n), (larger[0], larger[1] + 3 * k, larger[2])], pattern, density
    )
    assert after >= before * (1 - 1e-9)


def test_a_deeper_product_is_never_faster_for_being_split():
    """What splits cost each output comes beside its prologue; were it a share of that, the shallowest would take longest."""
    fitted = KernelModel(DENSE, from_values(FREE | {"fill": 400, "split": 1.2}), least=128)
    times = seconds(fitted, [(128, k, 128) for k in range(4, 1024, 20)])
    assert np.all(np.diff(times) >= -1e-12 * times[1:])


@given(thetas, sizes, sizes, sizes, kernels, tiles)
def test_no_rate_passes_the_peak_and_no_byte_the_bandwidth(theta, m, k, n, chosen, tile):
    key, pattern, density = chosen
    launches = asked(key, A100, [(m, 4 * k, n)], parse(pattern), density)
    time = predict.checked(KernelModel(key, theta, tile), launches)  # hears the alarms itself
    assert np.all(time >= launches.product.compulsory / launches.rates.bandwidth)


@given(thetas, st.floats(0.02, 0.98), st.floats(1.01, 5))
def test_denser_is_never_faster(theta, density, factor):
    """Of matrices whose rows are alike: a dense one has no imbalance."""
    launches = [asked(CSR, A100, [(2048, 2048, 512)], parse("unstructured"), d) for d in (density, min(1.0, density * factor))]
    sparse, denser = (KernelModel(CSR, theta).seconds(replace(launch, spread=np.zeros(1))) for launch in launches)
    assert denser >= sparse * (1 - 1e-9)


def test_padded_slots_run_as_the_next_power_of_two():
    key = replace(DENSE, unit="cuda_core", dtype="fp32", family="*:32")
    slow, exact = (KernelModel(key, PRIOR, power_slots=power) for power in (True, False))
    as_12, as_16 = (seconds(slow, [(4096, 4096, 1024)], f"{n}:32", n / 32) for n in (12, 16))
    assert as_12 == pytest.approx(as_16, rel=0.02)
    assert seconds(exact, [(4096, 4096, 1024)], "12:32", 12 / 32) < 0.9 * as_12


def test_gradients_are_those_of_finite_differences():
    launches = asked(CSR, A100, [(4096, 1024, 512), (700, 3000, 100)], parse("unstructured"), 0.2)
    with jax.enable_x64(True):
        given_, choice = kernel_time.features(launches), kernel_time.allowed(None)
        theta = np.array(PRIOR)
        slopes = np.asarray(jax.jit(jax.jacfwd(lambda t: kernel_time.seconds(t, given_, choice)))(theta))
        time = jax.jit(lambda t: kernel_time.seconds(t, given_, choice))
        for number in range(len(theta)):
            step = np.eye(len(theta))[number] * 1e-5
            ends = [np.asarray(time(theta + sign * step)) for sign in (1, -1)]
            np.testing.assert_allclose(slopes[:, number], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-12)


def test_a_fit_finds_the_parameters_that_made_its_times():
    """What the data speak of comes back, what they don't stays at its prior and is marked so."""
    truth = values(PRIOR) | {"launch": 2e-5, "extra_stored": 0.8, "bandwidth": 0.6}
    rng = np.random.default_rng(0)
    shapes = [tuple(int(2**x) for x in rng.uniform(4, 13, 3)) for _ in range(120)]
    launches = asked(DENSE, A100, shapes, parse("dense"), 1.0)
    made = replace(launches, time=KernelModel(DENSE, from_values(truth)).seconds(launches))
    fitted = fit(made)
    found = values(fitted.theta)
    assert {name: found[name] for name in ("launch", "bandwidth")} == {
        "launch": pytest.approx(2e-5, rel=0.03), "bandwidth": pytest.approx(0.6, abs=0.02),
    }  # fmt: skip
    np.testing.assert_allclose(fitted.seconds(made), made.time, rtol=0.02)
    known = dict(zip(found, informed(fitted, made), strict=True))
    assert known["launch"]
    assert known["bandwidth"]
    assert not known["reuse"]  # nothing is gathered
    draws = bootstrap(fitted, replace(made, time=made.time * rng.lognormal(0, 0.1, len(made))), 5).samples
    assert np.std([values(theta)["launch"] for theta in draws]) > 0


def test_special_kernels_are_told_from_those_that_choose():
    """A kernel with one tile is found by its waves."""
    shapes = [(256 * a, 4096, 128 * b) for a in range(1, 8) for b in (3, 7, 13, 20, 33)]
    launches = asked(DENSE, A100, shapes, parse("dense"), 1.0)
    made = replace(launches, time=KernelModel(DENSE, from_values(values(PRIOR) | {"tail": 0.95}), tile=(256, 128)).seconds(launches))
    assert fit(made).tile in {(256, 128), (128, 256)}  # these shapes hardly tell which way it lies


def test_a_library_without_small_tiles_and_splits_is_found():
    """What it takes for a narrow product says so, and so the times of others are within a few percent."""
    rng = np.random.default_rng(1)
    shapes = [tuple(int(64 * 2**x) for x in rng.uniform(0, 6, 3)) for _ in range(40)]
    launches = asked(DENSE, A100, shapes, parse("dense"), 1.0)
    truth = KernelModel(DENSE, from_values(values(PRIOR) | {"tail": 0.9}), splits=False, least=64)
    made = replace(launches, time=truth.seconds(launches))
    found = fit(made)
    assert (found.tile, found.splits, found.least) == (None, False, 64)
    np.testing.assert_allclose(found.seconds(made), made.time, rtol=0.02)


def test_processors_that_nobody_counted_are_counted_by_the_waves():
    rng = np.random.default_rng(3)
    shapes = [tuple(int(128 * 2**x) for x in rng.uniform(0, 5, 3)) for _ in range(40)]
    launches = asked(DENSE, A100, shapes, parse("dense"), 1.0)
    time = KernelModel(DENSE, from_values(values(PRIOR) | {"tail": 0.9}), tile=(128, 128)).seconds(launches)
    found = fit(replace(launches, time=time * rng.lognormal(0, 0.02, len(time)), rates=replace(launches.rates, processors=np.nan)))
    assert found.processors == pytest.approx(108, rel=0.05)
    np.testing.assert_allclose(found.seconds(launches), time, rtol=0.1)
    unseen = replace(launches, time=launches.product.compulsory / launches.rates.bandwidth + 1e-3)  # no waves in it
    assert np.isnan(fit(replace(unseen, rates=replace(launches.rates, processors=np.nan))).processors)


def test_a_product_with_one_column_takes_what_its_bytes_take():
    """Nothing but narrow tiles keeps a slow unit from computing 32 columns of which one is asked for; times made by hand."""
    shapes = [(m, k, 1) for m in (1024, 3000, 4096, 11008) for k in (1024, 4096, 8192)]
    launches = asked(replace(DENSE, unit="cuda_core", dtype="fp32"), A100, shapes, parse("dense"), 1.0)
    made = replace(launches, time=2e-6 + launches.product.compulsory / (0.85 * launches.rates.bandwidth))
    np.testing.assert_allclose(fit(made).seconds(made), made.time, rtol=0.05)


@pytest.mark.parametrize(
    ("alarm", "call"),
    [
        (assertions.NotPositiveError, lambda: assertions.check([1e-3, 0.0], [1e9, 1e9], 1e15)),
        (assertions.NotPositiveError, lambda: assertions.check([np.nan], [1e9], 1e15)),
        (assertions.AbovePeakError, lambda: assertions.check([1e-6], [1e12], 1e15)),
        (assertions.EfficiencyError, lambda: assertions.efficiency([0.5, 1.2])),
        (assertions.EfficiencyError, lambda: assertions.efficiency([0.0])),
        (assertions.NotMonotoneError, lambda: assertions.monotone([1.0, 2.0, 1.9])),
    ],
)
def test_each_absurdity_has_a_name(alarm, call):
    with pytest.raises(alarm):
        call()


def test_a_kernel_gone_wrong_raises_its_alarm():
    broken = KernelModel(DENSE, np.full(len(PARAMETERS), np.nan))
    with pytest.raises(assertions.NotPositiveError, match="a100-sxm4-80gb k dense fp16"):
        predict.seconds(A100, broken, [(64, 64, 64)], "dense")


def test_an_alarm_reaches_the_user_by_its_name(monkeypatch, capsys):
    monkeypatch.setattr(KernelModel, "seconds", lambda self, launches: np.full(len(launches), 1e-9))
    assert entry.main(["validate", "dense_fp16"]) == 1
    assert "AbovePeakError: a100-sxm4-80gb dense dense fp16: " in capsys.readouterr().err
