import numpy as np
import pytest

from dse.base.errors import InputError
from dse.sparsity.grammar import parse
from dse.workload import tables


def problems(path) -> list[str]:
    with pytest.raises(InputError) as caught:
        tables.load(path)
    return [str(problem) for problem in caught.value.problems]


def test_layers_are_float64_and_the_batch_goes_where_it_belongs(net):
    layers = net.layers.at_batch(16)
    assert layers.m.dtype == layers.count.dtype == np.float64
    index = {name: n for n, name in enumerate(layers.name)}
    assert layers.n[index["wide"]] == 512 * 16
    assert layers.count[index["wide"]] == 2
    assert layers.n[index["scores"]] == 128  # both operands are activations: more of them, not wider ones
    assert layers.count[index["scores"]] == 8 * 16
    assert layers.input_elements[index["norm"]] == 65536 * 16
    assert layers.input_elements[index["stem"]] == 3 * 224 * 224 * 16


def test_what_a_layer_reads_and_writes_where_the_table_is_silent(net):
    index = {name: n for n, name in enumerate(net.layers.name)}
    assert net.layers.input_elements[index["wide"]] == 4096 * 512
    assert net.layers.input_elements[index["scores"]] == 128 * 64 + 64 * 128
    assert net.layers.output_elements[index["stem"]] == 64 * 12544
    assert not net.layers.prunable[index["scores"]]


def test_realised_sparsity_counts_repeats_and_prunable_weights(net):
    prunable, kept = 64 * 147 + 2 * 4096 * 4096, 941 + 2 * 1677722
    assert net.variant("pruned", 0.9).sparsity == pytest.approx(1 - kept / prunable)


def test_a_variant_is_found_by_nominal_then_realised_sparsity(net):
    variant = net.variant("pruned", sparsity=0.9)
    assert net.variant("pruned", sparsity=round(variant.sparsity, 3)) is variant
    assert variant.accuracy == 70
    assert net.variant("dense").sparsity == 0
    assert net.variant("dense").accuracy == 76


def test_an_ambiguous_or_unknown_variant_lists_the_candidates(net):
    with pytest.raises(
        InputError, match=r"2 variants of 'net' match; give sparsity or pattern: pruned unstructured 0.5; pruned unstructured"
    ):
        net.variant("pruned")
    with pytest.raises(InputError, match=r"no variant of 'net' matches; take one of: pruned unstructured 0.5"):
        net.variant("pruned", sparsity=0.7)
    with pytest.raises(InputError, match=r"'net' has no method 'prune'; did you mean 'pruned'\?"):
        net.variant("prune")


def test_a_pattern_is_found_by_any_of_its_spellings(net):
    assert net.variant("pruned", 0.9, pattern="block:1x1") is net.variant("pruned", 0.9)


def test_the_dense_network_has_an_accuracy_only_where_its_sources_agree(net, edited, folder):
    assert (net.dense.accuracy, net.dense.accuracy_kind, net.dense.accuracy_source) == (76, "measured, published", "a test")
    edited("net/accuracy.csv", ("75.5,76", "75.5,77"))
    assert np.isnan(tables.load(folder / "net").dense.accuracy)


def test_header_cells_and_line_ends_are_forgiving(folder, net):
    path = folder / "net/layers.csv"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"name,kind", b"name , kind").replace(b"\n", b"\r\n"))
    assert tables.load(folder / "net").layers.name == net.layers.name


def test_a_variant_without_an_accuracy_says_so(net):
    blocky = net.variant("blocky")
    assert np.isnan(blocky.accuracy)
    assert blocky.accuracy_kind == "none"


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("variants/pruned.csv", "stem,4704", "stem,9409", ":2: nnz: density 1 is above 1 (9409 nonzeros in 9408 weights); write at most m x k nonzeros"),
        ("variants/pruned.csv", "stem,4704", "stam,4704", ":2: layer: unknown layer 'stam'; did you mean 'stem'?"),
        ("variants/pruned.csv", "0.9,stem,941", "0.9,wide,941", ":5: layer: layer 'wide' is given twice in one variant; keep one row"),
        ("variants/pruned.csv", "wide,8388608\nblocky", "wide,8388609\nblocky", ":6: nnz: 8.38861e+06 nonzeros are more than 2:4 allows; write at most 8.38861e+06"),
        ("variants/pruned.csv", "pattern,sparsity", "pattern,", ":1: unknown column ''; remove the column without a name, such as the index of a data frame"),
        ("variants/pruned.csv", "pattern,sparsity", "pattern,sparsty", ":1: unknown column 'sparsty'; did you mean 'sparsity'?"),
        ("variants/pruned.csv", "unstructured,0.5,stem", "5:4,0.5,stem", ":2: pattern: '5:4' keeps 5 of 4, which is impossible; write N:M with N <= M, as in '4:5'"),
        ("layers.csv", "head,gemm,1000", "wide,gemm,1000", ":6: layer 'wide' is given twice; rename one (the first is on line 3)"),
        ("layers.csv", "12544,1,1,150528", "12544,1,1,", ":2: a convolution reads its own input; fill input_elements (C_in x H x W)"),
        ("layers.csv", "norm,elementwise,,,,1,1,65536", "norm,elementwise,,,,1,1,", ":5: an elementwise layer moves elements; fill input_elements and output_elements"),
        ("layers.csv", "head,gemm,1000,512", "head,gemm,,512", ":6: a gemm needs m, k and n; fill the empty cells"),
        ("layers.csv", "12544,1,1,", "12544,1,3,", ":2: 3 groups do not divide m = 64; m counts the output channels of all groups"),
        ("layers.csv", "head,gemm,1000", "head,gemm,1e200", ":6: m: 1e200 is out of range; write a number of at most 1e+15"),
        ("variants/pruned.csv", "blocky,block:8x8,0.75,wide,4194304", "blocky,block:8x8,0.75,head,4", ":7: nnz: layer 'head' is pruned, but not prunable; set prunable in layers.csv, or write all its weights"),
        ("variants/pruned.csv", "blocky,block:8x8", "blocky,block:8x8*", ":7: pattern: 'block:8x8*' is a family of patterns, but a network has one pattern; write a member of it, as in 'block:8x8'"),
        ("variants/pruned.csv", "blocky", "\"blocky", ":7: not a CSV table: unexpected end of data; fix the quotes, or the cell on this line"),
        ("accuracy.csv", "pruned,unstructured,0.9", "pruned,unstructured,0.91", ":3: there is no variant 'pruned unstructured 0.91'; did you mean 'pruned unstructured 0.9'? (or densities 'uniform', if only a total is known)"),
        ("accuracy.csv", "pruned,unstructured,0.9", "pruned,unstructured,0.5", ":3: this accuracy is given twice; keep one row"),
        ("accuracy.csv", "75,76", "nan,76", ":2: value: 'nan' is not valid here (Input should be a finite number); write a finite number"),
        ("accuracy.csv", "75,76", "75,?", ":2: dense_value: '?' is not valid here (Input should be a valid number, unable to parse string as a number); write a number"),
    ],
)  # fmt: skip
def test_one_mistake_in_a_workload(edited, folder, file, old, new, expected):
    path = edited(f"net/{file}", (old, new))
    assert f"{path}{expected}" in problems(folder / "net")


WIDER = {
    "source,kind": "source,kind,metric,densities",
    "a test,published\n": "a test,published,,\n",
    "a test,measured": "a test,measured,,",
}


@pytest.fixture
def accuracies(edited, folder):
    """accuracy.csv with its optional columns, and a last row of one's own."""

    def add(row: str):
        edited("net/accuracy.csv", *WIDER.items())
        path = edited("net/accuracy.csv", ("a test,published\n", "a test,published,,\n"))
        path.write_text(path.read_text() + row + "\n")
        return path

    return add


def test_a_total_without_layers_is_spread_evenly_and_says_so(accuracies, folder):
    accuracies("guessed,unstructured,0.75,71,76,a test,published,,uniform")
    variant = tables.load(folder / "net").variant("guessed")
    assert variant.densities_from == "uniform"
    assert variant.sparsity == pytest.approx(0.75)
    assert set(variant.density[variant.layers.prunable]) == {0.25}
    assert set(variant.density[~variant.layers.prunable]) == {1}


def test_a_total_of_n_of_m_fills_what_it_may(accuracies, folder):
    accuracies("guessed,1:4,0.75,71,76,a test,published,,uniform")
    variant = tables.load(folder / "net").variant("guessed")
    names = list(variant.layers.name)
    assert variant.density[names.index("wide")] == 0.25
    assert variant.density[names.index("stem")] == 37 / 147  # 36 whole groups of 4, and one of 3


def test_computed_densities_are_distinguished_from_counted_ones(edited, folder):
    edited("net/accuracy.csv", ("source,kind", "source,kind,densities"), ("75,76,a test,published", "75,76,a test,published,computed"))
    net = tables.load(folder / "net")
    assert net.variant("pruned", 0.5).densities_from == "computed"
    assert net.variant("pruned", 0.9).densities_from == ""


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("semi,2:4,0.6,75,76,a test,published,,", ":5: there is no variant 'semi 2:4 0.6'; did you mean 'semi 2:4 0.5'? (or densities 'uniform', if only a total is known)"),
        ("blocky,block:8x8,0.75,75,76,a test,published,,uniform", ":5: 'blocky block:8x8 0.75' is traced, so its densities are known; write densities 'traced'"),
        ("blocky,block:8x8,0.75,75,76,a test,published,F1,", ":5: metric: unknown metric 'F1'; known: 'accuracy' (workload.yaml: metric, other_metrics)"),
        ("blocky,block:8x8,0.75,75,76,a test,published,,guessed", ":5: densities: 'guessed' is not known here; write one of 'traced', 'computed' or 'uniform'"),
    ],
)  # fmt: skip
def test_one_mistake_in_the_optional_columns(accuracies, folder, row, expected):
    assert f"{accuracies(row)}{expected}" in problems(folder / "net")


WITH_INTERVALS = """
method,pattern,sparsity,value,dense_value,low,high,source,kind
pruned,unstructured,0.5,75,76,74.5,75.2,a test,estimated
semi,2:4,0.5,75.5,76,,,a test,measured
"""


def test_a_variant_has_the_interval_of_its_accuracy_or_none(folder):
    (folder / "net/accuracy.csv").write_text(WITH_INTERVALS.lstrip())
    net = tables.load(folder / "net")
    assert (net.variant("pruned", 0.5).accuracy_low, net.variant("pruned", 0.5).accuracy_high) == (74.5, 75.2)
    assert np.isnan([net.variant("semi").accuracy_low, net.variant("semi").accuracy_high, net.dense.accuracy_low]).all()


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ("75,76,75.2,74.5", ":2: low: low 75.2 is above high 74.5; swap them"),
        ("75,76,74.5,", ":2: high: the interval has 'low', but no 'high'; fill 'high', or leave both empty"),
        ("75,76,,75.2", ":2: low: the interval has 'high', but no 'low'; fill 'low', or leave both empty"),
        ("75.3,76,74.5,75.2", ":2: value: the value 75.3 is outside of its interval 74.5 to 75.2; write the 5% and 95% quantiles of the value, which lies between them"),
        ("75,76,nan,75.2", ":2: low: 'nan' is not valid here (Input should be a finite number); write a finite number"),
        ("75,76,74.5,inf", ":2: high: 'inf' is not valid here (Input should be a finite number); write a finite number"),
    ],
)  # fmt: skip
def test_one_mistake_in_an_interval(folder, interval, expected):
    path = folder / "net/accuracy.csv"
    path.write_text(WITH_INTERVALS.lstrip().replace("75,76,74.5,75.2", interval))
    assert problems(folder / "net") == [f"{path}{expected}"]


def test_stored_elements_belong_to_a_variant_and_a_layer(folder):
    (folder / "net/statistics").mkdir()
    path = folder / "net/statistics/stored.csv"
    path.write_text("method,pattern,sparsity,layer,stored_as,elements\npruned,unstructured,0.5,wid,2:4,4\n")
    reported = "no variant 'pruned unstructured 0.5' of a layer 'wid'; trace the network again, or remove statistics/"
    assert f"{path}:2: {reported}" in problems(folder / "net")


def test_activation_densities_are_those_of_the_layer_or_of_the_variant(edited, folder):
    edited(
        "net/layers.csv", ("output_elements,prunable", "output_elements,prunable,activation_density"), ("150528,,true", "150528,,true,0.4")
    )
    edited("net/variants/pruned.csv", ("layer,nnz", "layer,nnz,activation_density"), ("0.9,stem,941", "0.9,stem,941,0.3"))
    net = tables.load(folder / "net")
    assert (net.variant("pruned", 0.5).activation_density[0], net.variant("pruned", 0.9).activation_density[0]) == (0.4, 0.3)
    path = edited("net/variants/pruned.csv", ("941,0.3", "941,1.3"))
    assert f"{path}:4: activation_density: 1.3 is out of range; write a number of at most 1" in problems(folder / "net")


def test_mistakes_in_several_files_are_reported_at_once(edited, folder):
    edited("net/workload.yaml", ("direction: higher", "direction: up"))
    edited("net/layers.csv", ("wide,gemm,4096", "wide,gemm,-4096"))
    reported = problems(folder / "net")
    assert len(reported) == 2
    assert "layers.csv:3: m:" in reported[0]
    assert "workload.yaml:3: metric.direction: 'up' is not known here; write one of 'higher' or 'lower'" in reported[1]


def test_an_empty_table_and_a_missing_one(folder):
    (folder / "net/layers.csv").write_text("")
    assert any("layers.csv: the file is empty; write a header with at least name,kind" in problem for problem in problems(folder / "net"))
    (folder / "net/layers.csv").unlink()
    assert any("layers.csv: no such file or directory" in problem for problem in problems(folder / "net"))


def test_hypothetical_variants_leave_unprunable_layers_dense(net):
    variant = net.hypothetical_variant(parse("1:4"), np.full(len(net.layers), 0.25), 0.75, "own")
    assert variant.density[list(net.layers.name).index("scores")] == 1
    assert variant.density[list(net.layers.name).index("wide")] == 0.25
    assert (variant.method, variant.accuracy_kind) == ("hypothetical", "none")
