"""Structured pruning of rows and channels shrinks the layers before and after, never below what the network still needs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.model.compaction import compact_variant
from dse.model.evaluate import evaluate
from dse.networks.layers import LayerArrays, LayerRow
from dse.sparsity.grammar import parse
from dse.workload import Variant

PER_CHANNEL = {"kind": "elementwise", "input_elements": 8, "output_elements": 8, "per_channel": True}


def linear(name: str, m: int, k: int, reads: str, adds: str | None = None, n: int = 8) -> LayerRow:
    return LayerRow(name=name, kind="gemm", m=m, k=k, n=n, reads=reads, adds=adds)


def pruned(rows: list[LayerRow], pattern: str, density: float | np.ndarray) -> Variant:
    layers = LayerArrays.from_rows(rows)
    return Variant("net", layers, "structured", parse(pattern), 0.5, np.where(layers.has_weights, density, 1.0))


def test_a_chain_without_half_of_its_rows_equals_the_narrower_network(chip):
    rows = [linear("a", 64, 32, "input"), linear("b", 128, 64, "a"), linear("c", 16, 128, "b")]
    narrow = [linear("a", 32, 32, "input"), linear("b", 64, 32, "a"), linear("c", 8, 64, "b")]
    result, expected = evaluate(chip, pruned(rows, "row", 0.5)), evaluate(chip, pruned(narrow, "dense", 1.0))
    for name in ("latency", "flops", "bytes"):
        np.testing.assert_allclose(result[name], expected[name], rtol=1e-12)
    assert list(result.dense_flops) == [2 * row.m * row.k * row.n for row in rows]  # before pruning
    assert "notes" not in result.attrs


def test_rows_that_produce_ignored_inputs_are_removed(chip):
    """The rows of `a` and `b` that no column of the next layer reads are not computed."""
    rows = [linear("a", 64, 32, "input"), linear("b", 128, 64, "a"), linear("c", 16, 128, "b")]
    narrow = [linear("a", 32, 16, "input"), linear("b", 64, 32, "a"), linear("c", 16, 64, "b")]
    for pattern in ("column", "channel"):
        result, expected = evaluate(chip, pruned(rows, pattern, 0.5)), evaluate(chip, pruned(narrow, "dense", 1.0))
        for name in ("latency", "flops", "bytes"):
            np.testing.assert_allclose(result[name], expected[name], rtol=1e-12)


def test_mobilenet_with_half_its_channels_equals_mobilenet_at_half_width(chip):
    """Channels are followed through depthwise convolutions; the classifier keeps its rows."""
    whole, half = dse.load_workload("mobilenet-v1"), dse.load_workload("mobilenet-v1").description.network
    narrow = LayerArrays.from_rows(half.model_copy(update={"depth_multiplier": 0.5}).build_layers(None))
    depthwise = whole.layers.groups > 1
    density = np.where(depthwise | (np.arange(len(whole.layers)) == len(whole.layers) - 1), 1.0, 0.5)
    variant = replace(whole.dense, pattern=parse("row"), density=density)
    flops = evaluate(chip, variant, dtype="fp16").flops
    expected = evaluate(chip, replace(whole.dense, layers=narrow), dtype="fp16").flops
    np.testing.assert_allclose(flops, expected, rtol=1e-12)


def test_a_gated_unit_keeps_at_most_the_channels_of_its_smaller_half(chip):
    rows = [
        linear("gate", 64, 16, "input"), linear("up", 64, 16, "input"),
        LayerRow(name="product", kind="elementwise", input_elements=1024, output_elements=512, reads="gate;up", per_channel=True),
        linear("down", 16, 64, "product"),
    ]  # fmt: skip
    compacted = compact_variant(pruned(rows, "row", np.array([0.25, 0.5, 1.0, 1.0]))).layers
    assert (compacted.k[3], compacted.input_elements[2], compacted.output_elements[2]) == (16, 1024 * 0.375, 512 * 0.25)


def test_channels_that_are_added_to_others_stay():
    """In ResNet-50 the results of a block are sums: only its first two convolutions shrink the next."""
    net = dse.load_workload("resnet50")
    variant = net.hypothetical_variant(parse("row"), np.full(len(net.layers), 0.5), 0.5, "a test")
    compacted, layers = compact_variant(variant).layers, net.layers
    inside = [name.startswith(("bottleneck_2", "bottleneck_3")) for name in layers.name]
    after_stem = [name.endswith("projection_block_group1") for name in layers.name]
    np.testing.assert_array_equal(compacted.k, np.where(np.logical_or(inside, after_stem), layers.k / 2, layers.k))
    notes = evaluate("a100-sxm4-80gb", variant).attrs["notes"]
    assert notes == "'resnet50', 'row': 16 of 54 pruned layers share their channels with others: the layers after these keep all inputs"


@pytest.mark.parametrize("pattern", ["row", "channel"])
def test_an_unknown_layer_graph_is_a_warning(folder, pattern):
    """The network of the fixture has no graph."""
    path = folder / "small.yaml"
    path.write_text(path.read_text().replace("{methods: all}", f"{{methods: [], patterns: {{list: [{pattern}], densities: [0.5]}}}}"))
    with pytest.warns(
        dse.ModelWarning, match=f"'net': '{pattern}' does not shrink the neighbours of pruned layers because the layer graph is unknown"
    ):
        dse.sweep(path)


@st.composite
def masked(draw) -> tuple[list[LayerRow], np.ndarray]:
    """Linear and elementwise layers of few channels that read, multiply and add earlier outputs, and a mask of rows or columns for each."""
    width = draw(st.sampled_from([2, 4]))
    rows, masks = [], []
    for number in range(draw(st.integers(1, 7))):
        earlier = [row.name for row in rows]
        mask = draw(st.lists(st.booleans(), min_size=width, max_size=width).filter(any))
        if len(earlier) > 1 and draw(st.booleans()):
            pair = draw(st.lists(st.sampled_from(earlier), min_size=1, max_size=2, unique=True))
            rows.append(LayerRow(name=f"l{number}", reads=";".join(pair), **PER_CHANNEL))
            mask = [True] * width
        else:
            adds = draw(st.sampled_from([None, *earlier]))
            rows.append(linear(f"l{number}", width, width, draw(st.sampled_from(earlier or ["input"])), adds, n=1))
        masks.append(mask)
    return rows, np.array(masks)


@given(masked())
def test_no_channel_that_is_needed_is_removed(network):
    """Channel by channel: the channels that a mask of rows keeps alive, or a mask of columns needs, are at most those that the model keeps."""
    rows, masks = network
    layers = LayerArrays.from_rows(rows)
    graph, density = layers.graph, masks.mean(axis=1)
    alive = np.zeros(masks.shape, bool)
    for number in range(len(rows)):
        read, added = graph.reads[number], graph.adds[number]
        inputs = np.logical_and.reduce([alive[p] for p in read], axis=0) if read else np.ones(masks.shape[1], bool)
        alive[number] = np.logical_or.reduce([masks[number] if layers.has_weights[number] else inputs, *(alive[p] for p in added)], axis=0)
        compacted = compact_variant(pruned(rows, "row", density)).layers
        assert compacted.k[number] >= inputs.sum() - 1e-9 or not layers.has_weights[number]
        assert compacted.output_elements[number] >= 8 * inputs.mean() - 1e-9 or layers.has_weights[number]
    needed = np.zeros(masks.shape, bool)
    for number in reversed(range(len(rows))):
        users = graph.users[number]
        requests = [masks[u] if layers.has_weights[u] else needed[u] for u in users if number in graph.reads[u]]
        requests += [needed[u] for u in users if number in graph.adds[u]]
        needed[number] = np.logical_or.reduce(requests, axis=0) if users else True
        compacted = compact_variant(pruned(rows, "channel", density)).layers
        assert compacted.m[number] >= needed[number].sum() - 1e-9 or not layers.has_weights[number]
