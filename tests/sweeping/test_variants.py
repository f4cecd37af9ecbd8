"""Which network states a sweep evaluates."""

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.sweeping.plan_builder import load_plan


def problems(path) -> list[str]:
    with pytest.raises(InputError) as caught:
        dse.sweep(path)
    return [str(problem) for problem in caught.value.problems]


def with_patterns(edited, patterns: str):
    return edited("small.yaml", ("{methods: all}", f"{{methods: [pruned], patterns: {patterns}}}"))


def test_hypothetical_variants_and_where_their_densities_are_from(edited):
    path = with_patterns(
        edited, '[{list: [1:8, 2:4]}, {list: ["block:4x4"], densities: from_method}, {list: ["block:8x8"], densities: [0.5]}]'
    )
    found = dse.sweep(path)
    made = found.isel(variant=found.method.values == "hypothetical")
    assert list(made.pattern.values) == ["1:8", "2:4", "block:4x4", "block:4x4", "block:8x8"]
    assert list(made.densities_from.values) == ["own", "own", "pruned 0.5", "pruned 0.9", "uniform 0.5"]
    assert np.isnan(made.accuracy).all()
    assert set(made.accuracy_kind.values) == {"none"}
    np.testing.assert_allclose(made.sparsity.values[2:4], found.sparsity.values[:2], rtol=1e-12)


@pytest.mark.parametrize(("short", "long"), [('["1:8", "2:4"]', "[1:8, 2:4]"), ('"1:8"', "[1:8]")])
def test_patterns_alone_are_at_their_own_densities(edited, short, long):
    result = dse.sweep(with_patterns(edited, short))
    expected = dse.sweep(edited("small.yaml", (short, f"{{list: {long}, densities: own}}")))
    assert list(result.densities_from.values) == list(expected.densities_from.values)
    np.testing.assert_array_equal(result.latency, expected.latency)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ("[5:4]", "'5:4' keeps 5 of 4, which is impossible; write N:M with N <= M, as in '4:5'"),
        ("{list: [1:8], densities: from_method}", "'1:8' has density 0.125, but 'pruned 0.5' has others; write 'densities: own' for it"),
        ("{list: [1:8], densities: [0.5]}", "'1:8' has density 0.125, but 'uniform 0.5' has others; write 'densities: own' for it"),
        ("{list: [unstructured], densities: own}", "'unstructured' has no density of its own; write 'densities: from_method' or a list"),
        ("{list: [unstructured], densities: [1.5]}", "density 1.5 is not above 0 and at most 1; write the share kept, as in '[0.5, 0.25]'"),
        (
            '{list: ["block:4x4*"], densities: [0.5]}',
            "'block:4x4*' is a family of patterns, but a network has one pattern; write a member of it",
        ),
        ("{list: [5:4]}", "'5:4' keeps 5 of 4, which is impossible; write N:M with N <= M, as in '4:5'"),
    ],
)
def test_invalid_densities_are_refused(edited, patterns, expected):
    path = with_patterns(edited, patterns)
    (found,) = problems(path)
    assert found.startswith(f"{path}:4: workloads../net.patterns")
    assert expected in found


def test_an_n_m_takes_the_densities_of_a_network_pruned_to_it(folder):
    """Even where M does not divide k: the first convolution keeps 74 of 147."""
    path = folder / "net/variants/pruned.csv"
    path.write_text(path.read_text() + "semi,2:4,0.5,stem,4736\n")
    sweep = folder / "small.yaml"
    sweep.write_text(sweep.read_text().replace("{methods: all}", "{methods: [semi], patterns: {list: [2:4], densities: from_method}}"))
    found = dse.sweep(sweep).latency
    np.testing.assert_allclose(found.isel(variant=0), found.isel(variant=1), rtol=1e-14)


def test_sparsities_narrow_the_variants_and_methods_may_lack_one(edited):
    found = dse.sweep(edited("small.yaml", ("{methods: all}", "{sparsities: [0.9, 0.75]}")))
    assert list(zip(found.method.values, found.nominal_sparsity.values, strict=True)) == [("pruned", 0.9), ("blocky", 0.75)]


def test_a_sparsity_that_no_method_has_is_refused(edited):
    path = edited("small.yaml", ("{methods: all}", "{sparsities: [0.9, 0.77]}"))
    assert problems(path) == [
        f"{path}:4: workloads../net.sparsities: no selected method of 'net' has sparsity 0.77; write one of 0.5, 0.75, 0.9"
    ]


def test_dense_is_a_method_of_every_network(edited):
    found = dse.sweep(edited("small.yaml", ("{methods: all}", "{methods: [dense, semi]}")))
    assert list(found.method.values) == ["dense", "semi"]


def test_a_network_without_measured_variants_is_evaluated_dense(folder, edited):
    for name in ("variants/pruned.csv", "accuracy.csv"):
        (folder / "net" / name).unlink()
    found = dse.sweep(folder / "small.yaml")
    assert list(found.method.values) == ["dense"]
    assert (found.speedup == 1).all()
    assert list(dse.sweep(edited("small.yaml", ("{methods: all}", "{patterns: {list: [2:4]}}"))).pattern.values) == ["2:4"]


def test_an_assumed_activation_density_is_that_of_every_layer_with_weights(edited, folder):
    edited("small.yaml", ("{methods: all}", "{methods: [semi], activation_density: 0.25}"))
    (workload,) = load_plan(folder / "small.yaml").workloads
    for state in (workload.dense, workload.variant("semi")):
        assert set(state.input_density[workload.layers.has_weights]) == {0.25}
        assert set(state.input_density[~workload.layers.has_weights]) == {1.0}


def test_a_block_larger_than_every_layer_is_refused(edited, folder):
    edited("small.yaml", ("{methods: all}", "{methods: [], patterns: {list: ['block:8192x16'], densities: [0.5]}}"))
    with pytest.raises(InputError, match=r"small.yaml:4: .*a block of 'block:8192x16', 8192x16, is larger than every layer of 'net'"):
        load_plan(folder / "small.yaml")


def test_several_densities_of_activations_are_several_networks(edited, folder):
    edited("small.yaml", ("{methods: all}", "{methods: [semi], activation_density: [1, 0.25]}"))
    both = dse.sweep(folder / "small.yaml")
    assert list(both.workload.values) == ["net (activation_density=1.0)", "net (activation_density=0.25)"]
    edited("small.yaml", ("activation_density: [1, 0.25]", "activation_density: 0.25"))
    alone = dse.sweep(folder / "small.yaml")
    assert list(alone.workload.values) == ["net"]
    np.testing.assert_array_equal(both.latency.isel(variant=[1]), alone.latency)


def test_an_assumed_drop_is_compared_with_the_tolerance_as_a_measured_one(edited):
    """Also where no accuracy of the dense network is known. Of 76 points, 1% is 0.76."""
    path = with_patterns(
        edited, '[{list: [1:8, 2:4], accuracy_drop: {"1:8": 1 %}}, {list: ["block:8x8"], densities: [0.5], accuracy_drop: 3}]'
    )
    swept = dse.sweep(path)
    made = swept.isel(variant=swept.method.values == "hypothetical")
    assert list(made.accuracy_kind.values) == ["assumed", "none", "assumed"]
    np.testing.assert_allclose(made.accuracy.values, [75.24, np.nan, 73.0])
    np.testing.assert_allclose(made.assumed_drop.values, [0.76, np.nan, 3.0])
    best = dse.iso_speedup(swept, drop=0.8)
    assert set(best.pattern.sel(variant=best.best).values.ravel()) <= {"1:8", "dense"}
    (edited("small.yaml").parent / "net/accuracy.csv").unlink()
    path.write_text(path.read_text().replace("1 %", "0.76"))
    unknown = dse.sweep(path)
    np.testing.assert_array_equal(np.isnan(unknown.accuracy), True)
    again = dse.iso_speedup(unknown, drop=0.8)
    np.testing.assert_array_equal(
        again.speedup, dse.iso_speedup(swept.isel(variant=swept.method.values == "hypothetical"), drop=0.8).speedup
    )
    front = dse.pareto(unknown, maximize=["speedup"], minimize=["accuracy_drop"])
    assert set(front.accuracy_drop.values) <= {0.76, 3.0}
    path.write_text(path.read_text().replace("0.76", "1 %"))
    assert problems(path) == [
        f"{path}:4: workloads../net.patterns.0.accuracy_drop: the accuracy drop of '1:8' is in %, and the tolerance in points; "
        "the accuracy of dense 'net' is not known; write the drop in points"
    ]
