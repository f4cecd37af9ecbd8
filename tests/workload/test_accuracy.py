"""Accuracy curves: they pass through the measured points, end with them, and give the variant at a tolerated loss."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dse
from dse.base import catalog
from dse.base.errors import InputError
from dse.cli import entry
from dse.networks.layers import LayerArrays, LayerRow
from dse.sparsity.grammar import parse
from dse.workload import Variant, Workload
from dse.workload.accuracy import ROUNDING_TOLERANCE, AccuracyCurve, accuracy_curves
from dse.workload.schema import Description

LAYERS = LayerArrays.from_rows(
    [LayerRow.model_validate({"name": f"layer{n}", "kind": "gemm", "m": 16, "k": 16 * (n + 1), "n": 1}) for n in range(3)]
    + [LayerRow.model_validate({"name": "head", "kind": "gemm", "m": 10, "k": 16, "n": 1, "prunable": False})]
)


def make_workload(variants: list[dict], direction: str = "higher") -> Workload:
    """A workload of variants, each a mapping of fields; `density` is that of the prunable layers."""
    about = {"name": "made", "task": "a test", "metric": {"name": "accuracy", "direction": direction}, "sources": ["a test"]}
    empty = Workload(Description.model_validate(about), LAYERS, (), None, {})  # type: ignore[arg-type]
    return Workload(empty.description, LAYERS, tuple(map(make_variant, variants)), None, {})  # type: ignore[arg-type]


def make_variant(fields: dict) -> Variant:
    usual = {"method": "m", "pattern": "unstructured", "dense_accuracy": 76.0, "accuracy_kind": "published", "accuracy_source": "a test"}
    chosen = usual | {"metric": "accuracy"} | fields
    density = np.array([*chosen.pop("density"), 1.0])
    return Variant("made", LAYERS, pattern=parse(chosen.pop("pattern")), nominal_sparsity=0.5, density=density, **chosen)


densities = st.lists(st.lists(st.floats(0.01, 0.99), min_size=3, max_size=3), min_size=1, max_size=6)
tolerances = st.floats(0, 40)


@st.composite
def random_curves(draw, direction: str | None = None):
    """A curve of free density with any accuracies, rising and falling, and with or without the dense network."""
    direction = direction or draw(st.sampled_from(["higher", "lower"]))
    variants = [{"density": density, "accuracy": draw(st.floats(40, 80)), "combined_with": "more"} for density in draw(densities)]
    if draw(st.booleans()):
        variants = [{**each, "combined_with": ""} for each in variants]
    (curve,) = accuracy_curves(make_workload(variants, direction))
    assume(len(curve.points) < 2 or np.diff(curve.sparsities).min() > 1e-6)
    return curve


# -- the curve


@given(random_curves())
def test_a_curve_meets_every_point_and_turns_only_there(curve):
    accuracies = np.array([point.accuracy for point in curve.points])
    np.testing.assert_allclose(curve.accuracy(curve.sparsities), accuracies, rtol=1e-12)
    for left, right in zip(curve.points, curve.points[1:], strict=False):
        between = curve.accuracy(np.linspace(left.sparsity, right.sparsity, 50))
        rise = np.sign(right.accuracy - left.accuracy)
        assert (rise * np.diff(between) >= -1e-9).all()
        assert abs(between - left.accuracy).max() <= abs(right.accuracy - left.accuracy) + 1e-9


@given(random_curves(), st.floats(0, 1))
def test_a_curve_raises_outside_of_the_measured_range(curve, sparsity):
    low, high = curve.sparsities[[0, -1]]
    if low <= sparsity <= high:
        assert math.isfinite(curve.accuracy(sparsity))
        return
    for ask in (curve.accuracy, curve.loss, curve.variant, lambda s: curve.accuracy(np.array([low, s]))):
        with pytest.raises(InputError, match=f"was not measured at sparsity .*; choose a sparsity from {low:.6g} to {high:.6g}"):
            ask(sparsity)


@given(random_curves(), st.floats(0, 1))
def test_an_interpolated_variant_has_the_requested_sparsity_and_densities_between_its_neighbours(curve, share):
    low, high = map(float, curve.sparsities[[0, -1]])
    sparsity = min(low + share * (high - low), high)
    found = curve.variant(sparsity)
    assert found.sparsity == pytest.approx(sparsity, abs=1e-12)
    assert found.accuracy == pytest.approx(float(curve.accuracy(sparsity)))
    right = min(int(np.searchsorted(curve.sparsities, sparsity)), len(curve.points) - 1)
    neighbours = np.array([point.density for point in curve.points[max(right - 1, 0) : right + 1]])
    assert (found.density >= neighbours.min(axis=0) - 1e-15).all()
    assert (found.density <= neighbours.max(axis=0) + 1e-15).all()
    assert found.density[-1] == 1  # the head is not prunable


@given(random_curves())
def test_a_point_is_the_variant_that_was_measured(curve):
    for point in curve.points:
        assert curve.variant(point.sparsity) is point


@given(random_curves(), st.floats(0, 1), st.floats(0, 3), st.floats(0, 3))
def test_an_interval_passes_through_those_of_the_points_and_contains_the_curve(curve, share, below, above):
    uncertain = [replace(v, accuracy_low=v.accuracy - below * k, accuracy_high=v.accuracy + above) for k, v in enumerate(curve.points)]
    curve = AccuracyCurve(tuple(uncertain), curve.metric)
    low, high = curve.interval(curve.sparsities)
    np.testing.assert_allclose([low, high], [[v.accuracy_low for v in uncertain], [v.accuracy_high for v in uncertain]], rtol=1e-12)
    first, last = map(float, curve.sparsities[[0, -1]])
    variant = curve.variant(min(first + share * (last - first), last))
    assert variant.accuracy_low <= variant.accuracy <= variant.accuracy_high


def test_a_point_without_an_interval_is_exact_and_a_curve_without_any_has_none():
    """Half-way (by sparsity) between the exact dense network and the only pruned point, linear on both sides."""
    plain = {"density": [0.5] * 3, "accuracy": 75.0}
    (curve,) = accuracy_curves(make_workload([plain]))
    assert np.isnan(curve.interval(curve.sparsities)).all()
    (curve,) = accuracy_curves(make_workload([plain | {"accuracy_low": 74.0, "accuracy_high": 75.2}]))
    middle = curve.variant(curve.sparsities[1] / 2)
    assert (middle.accuracy_low, middle.accuracy, middle.accuracy_high) == pytest.approx((75.0, 75.5, 75.6))


# -- a tolerance


@given(random_curves(), tolerances, tolerances, st.booleans())
def test_the_sparsity_grows_with_the_tolerance_and_stays_in_the_range(curve, one, other, relative):
    less, more = (curve.iso(drop, relative) for drop in sorted((one, other)))
    if less is None:
        return
    assert more is not None
    assert curve.sparsities[0] <= less.sparsity <= more.sparsity + 1e-12
    assert more.sparsity <= curve.sparsities[-1] + 1e-12


@given(random_curves(), tolerances)
def test_iso_loses_at_most_the_drop_and_everything_sparser_loses_more(curve, drop):
    found = curve.iso(drop)
    worse = 1 if curve.metric.direction == "higher" else -1
    start = curve.sparsities[0]
    if found is not None:
        assert worse * (76 - found.accuracy) <= drop + ROUNDING_TOLERANCE
        start = found.sparsity + 1e-6 * (curve.sparsities[-1] - found.sparsity)
        if found is curve.points[-1]:
            return
    sparser = np.linspace(start, curve.sparsities[-1], 100)
    assert (curve.loss(sparser) > drop - 1e-6).all()


@given(random_curves("higher"), tolerances)
def test_a_metric_where_lower_is_better_mirrors_one_where_higher_is(curve, drop):
    turned = [
        {"density": p.density[:-1], "accuracy": 152 - p.accuracy, "combined_with": curve.sparsest.combined_with} for p in curve.points
    ]
    (other,) = accuracy_curves(make_workload([each for each in turned if each["density"].min() < 1], "lower"))
    ours, theirs = curve.iso(drop), other.iso(drop)
    assert (ours is None) == (theirs is None)
    assert ours is None or ours.sparsity == pytest.approx(theirs.sparsity, abs=1e-6)


@given(random_curves(), tolerances)
def test_a_relative_tolerance_is_in_percent_of_the_dense_network(curve, drop):
    absolute, relative = curve.iso(drop * 76 / 100), curve.iso(drop, relative=True)
    assert (absolute and absolute.sparsity) == (relative and relative.sparsity)


def test_published_decimals_are_met_exactly():
    """76.69 - 76.38 is 0.3100000000000023 in floats; a tolerance of 0.31 means that point."""
    (curve,) = accuracy_curves(dse.load_workload("resnet50"), "magnitude_pruning")
    assert curve.iso(0.31).nominal_sparsity == 0.7
    assert curve.iso(0.0).method == "dense"


# -- what makes a curve


def test_a_fixed_pattern_is_a_point_and_has_no_dense_end():
    (curve,) = accuracy_curves(make_workload([{"density": [0.5] * 3, "accuracy": 75.0, "pattern": "2:4"}]))
    assert len(curve.points) == 1
    assert curve.iso(2.0) is curve.points[0]
    assert curve.iso(0.5) is None
    assert curve.variant(0.5) is curve.points[0]
    with pytest.raises(InputError, match=r"not measured at sparsity 0\.4; choose one of 0\.5: between them, 2:4 has no sparsity"):
        curve.variant(0.4)


def test_two_points_of_a_fixed_pattern_have_nothing_between():
    variants = [{"density": [d] * 3, "accuracy": a, "pattern": "2:4"} for d, a in ((0.5, 70.0), (0.6, 75.0))]
    (curve,) = accuracy_curves(make_workload(variants))
    assert curve.iso(3.0) is curve.points[0]  # 70 is too low, and nothing is measured between
    with pytest.raises(InputError, match=r"choose one of 0\.4, 0\.5"):
        curve.accuracy(0.45)


def test_only_a_free_pattern_measured_alone_starts_at_the_dense_network():
    def first_sparsity(**fields) -> float:
        (curve,) = accuracy_curves(make_workload([{"density": [0.2] * 3, "accuracy": 75.0} | fields]))
        return curve.points[0].sparsity

    assert first_sparsity() == 0
    assert first_sparsity(pattern="block:4x4") == 0
    assert first_sparsity(combined_with="8-bit quantisation") == pytest.approx(0.8)
    assert first_sparsity(dense_accuracy=np.nan) == pytest.approx(0.8)


def test_variants_of_different_dense_networks_metrics_or_treatments_are_on_different_curves():
    base = {"density": [0.2] * 3, "accuracy": 75.0}
    variants = [base, base | {"dense_accuracy": 77.0}, base | {"combined_with": "8-bit quantisation"}, base | {"method": "other"}]
    found = accuracy_curves(make_workload([*variants, base | {"accuracy": 74.0}]))
    assert [len(curve.points) for curve in found] == [2, 2, 1, 2]
    assert found[0].points[-1].accuracy == 74  # of two variants of one sparsity the worse is kept


def test_every_variant_names_its_kind_and_source():
    variants = [
        {"density": [0.5] * 3, "accuracy": 75.5, "accuracy_kind": "measured", "accuracy_source": "A"},
        {"density": [0.2] * 3, "accuracy": 70.0, "accuracy_kind": "estimated", "accuracy_source": "B"},
    ]
    (curve,) = accuracy_curves(make_workload(variants))
    between = curve.iso(1.0)
    assert (between.accuracy_kind, between.accuracy_source) == ("interpolated, measured, estimated", "A; B")
    assert between.densities_from.startswith("a mixture of")
    assert (curve.iso(0.5).accuracy_kind, curve.iso(10.0).accuracy_source) == ("measured", "B")


def test_a_dense_network_that_is_not_known_gives_no_loss():
    (curve,) = accuracy_curves(make_workload([{"density": [0.5] * 3, "accuracy": 75.0, "dense_accuracy": np.nan}]))
    with pytest.raises(InputError, match=r"the dense accuracy of made: m unstructured, accuracy is not known; add its 'dense_value'"):
        curve.iso(1.0)


@pytest.mark.parametrize("drop", [-0.1, math.nan])
def test_a_tolerance_below_zero_is_refused(drop):
    (curve,) = accuracy_curves(make_workload([{"density": [0.5] * 3, "accuracy": 75.0}]))
    with pytest.raises(InputError, match="is out of range; write a number of at least 0"):
        curve.iso(drop)


def test_a_curve_that_was_not_measured_gets_a_suggestion():
    resnet = dse.load_workload("resnet50")
    with pytest.raises(InputError, match=r"has no accuracies of 'magnitude'; did you mean 'magnitude_pruning'\?"):
        accuracy_curves(resnet, "magnitude")
    with pytest.raises(InputError, match=r"has no accuracies of 'asp 4:8'; did you mean 'asp 2:4'\?"):
        accuracy_curves(resnet, "asp", "4:8")
    with pytest.raises(InputError, match="no variant of 'swin-b' has an accuracy"):
        accuracy_curves(dse.load_workload("swin-b"))


# -- what ships


def test_resnet50_by_hand():
    """The cubic from 0.7 to 0.8 (Fritsch and Butland 1984): slopes are harmonic means weighted by the intervals on both sides.

    Points 0.5: 76.53, 0.7: 76.38, 0.8: 75.58, 0.9: 73.91, at their realised sparsities.
    """
    x = [0.5, 0.7000010430181463, 0.8000011528095301, 0.9000010273336629]
    secants = [(b - a) / (x[n + 1] - x[n]) for n, (a, b) in enumerate([(76.53, 76.38), (76.38, 75.58), (75.58, 73.91)])]

    def slope(n: int) -> float:
        before, after = x[n] - x[n - 1], x[n + 1] - x[n]
        return 3 * (before + after) / ((2 * after + before) / secants[n - 1] + (after + 2 * before) / secants[n])

    (curve,) = accuracy_curves(dse.load_workload("resnet50"), "magnitude_pruning")
    for t in (0.1, 0.5, 0.9):
        step = x[2] - x[1]
        by_hand = (1 + 2 * t) * (1 - t) ** 2 * 76.38 + t * (1 - t) ** 2 * step * slope(1)
        by_hand += t**2 * (3 - 2 * t) * 75.58 + t**2 * (t - 1) * step * slope(2)
        assert curve.accuracy(x[1] + t * step) == pytest.approx(by_hand, abs=1e-9)
    found = curve.iso(1.0)
    assert 0.7 < found.sparsity < 0.8
    assert found.accuracy == pytest.approx(75.69, abs=1e-9)
    assert found.accuracy_kind == "interpolated, published"


def test_an_int8_network_does_not_start_at_the_dense_one_in_floating_point():
    (curve,) = accuracy_curves(dse.load_workload("resnet50"), "nncf_int8")
    assert curve.sparsities[0] == pytest.approx(0.5)
    assert curve.iso(0.5) is None
    assert curve.iso(1.0).nominal_sparsity == 0.61


def test_every_shipped_curve_gives_variants_whose_accuracy_is_that_of_the_curve():
    networks = [dse.load_workload(name) for name in catalog.list_names("workloads")]
    pruned = [network for network in networks if any(math.isfinite(variant.accuracy) for variant in network.variants)]
    assert len(pruned) == 12
    for curve in (curve for network in pruned for curve in accuracy_curves(network)):
        for drop in (0.0, 0.5, 1.0, 5.0):
            if (found := curve.iso(drop)) is not None:
                assert found.accuracy == pytest.approx(float(curve.accuracy(found.sparsity)), abs=1e-6)
                assert found.accuracy_source
                assert found.accuracy_kind != "none"


def test_a_mixture_is_evaluated_as_any_variant():
    (curve,) = accuracy_curves(dse.load_workload("resnet50"), "magnitude_pruning")
    a100 = dse.load_accelerator("a100-sxm4-80gb")
    latency = [float(dse.evaluate(a100, curve.variant(s)).latency.sum()) for s in (0.9000010273336629, 0.92, 0.94, 0.9500009645957292)]
    assert latency == sorted(latency, reverse=True)


# -- the command


def test_the_table_says_what_limits_each_sparsity(folder, capsys):
    assert entry.main(["iso", str(folder / "net"), "--drop", "3", "--json"]) == 0
    free, fixed = json.loads(capsys.readouterr().out)
    assert (free["method"], free["set by"], free["kind"]) == ("pruned", "the drop", "interpolated, published")
    assert 0.5 < free["sparsity"] < 0.9
    assert (fixed["accuracy"], fixed["set by"], fixed["kind"]) == (75.5, "the pattern", "measured")
    assert entry.main(["iso", str(folder / "net"), "--drop", "0.1"]) == 0
    assert "none: loses 0.5 or more" in capsys.readouterr().out


def test_a_source_without_a_dense_network_has_a_row_that_says_so(folder, edited, capsys):
    edited("net/accuracy.csv", ("75.5,76", "75.5,"))
    assert entry.main(["iso", str(folder / "net")]) == 0
    assert "none: the source names no dense network" in capsys.readouterr().out


def test_a_negative_drop_exits_2(folder, capsys):
    assert entry.main(["iso", str(folder / "net"), "--drop", "-1"]) == 2
    assert "an accuracy drop of -1 is out of range" in capsys.readouterr().err
