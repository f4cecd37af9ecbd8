"""The fidelity `capacity`: levels, bands, capacities as axes, fusion, and what it may never be beside the speed of light."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import dse
from dse.base.errors import InputError
from dse.base.yaml_document import parse_document
from dse.model import grid
from dse.model.evaluate import evaluate
from dse.model.memory_levels import MemoryLevel, memory_level_warnings, memory_levels
from dse.model.needed_inputs import input_uses
from dse.networks.layers import LayerArrays, LayerRow
from dse.schema.accelerator import Accelerator
from dse.sparsity.grammar import parse
from dse.workload import Variant

CHIP = """
name: made
source: a test
units:
  one:
    peak: {{fp16: 1 PFLOP/s}}
    runs:
      csr: {{pattern: unstructured}}
      half: {{pattern: 2:4}}
memory:
{memory}
"""
THREE = """
  dram: {capacity: 1 GB, bandwidth: 1 TB/s}
  l2: {capacity: 1 MB, bandwidth: 3 TB/s}
  l1: {capacity: 64 kB, bandwidth: 16 TB/s}
"""
GEMM = {"name": "wide", "kind": "gemm", "m": 2048, "k": 2048, "n": 2048}


def described(memory: str) -> Accelerator:
    document = parse_document(Path("made.yaml"), CHIP.format(memory=memory))
    accelerator = document.validate(Accelerator)
    accelerator._document = document
    return accelerator


def network(rows: list[dict], density: float = 1.0, pattern: str = "unstructured") -> Variant:
    layers = LayerArrays.from_rows([LayerRow.model_validate(row) for row in rows])
    return Variant("made", layers, "made", parse(pattern), 1 - density, np.where(layers.has_weights, density, 1.0))


def chain(*widths: float, n: float) -> Variant:
    pairs = itertools.pairwise(widths)
    rows = [{"name": f"fc{number}", "kind": "gemm", "m": m, "k": k, "n": n} for number, (k, m) in enumerate(pairs)]
    return network([row | {"reads": f"fc{number - 1}" if number else "input"} for number, row in enumerate(rows)])


def test_a_level_moves_what_the_capacity_inside_it_cannot_keep():
    """2048^3 in fp16, dense: between the bound 2 G 2 B / sqrt(S / 2 B) and 1.25 times that; the innermost level moves each byte once."""
    results = evaluate(described(THREE), network([GEMM]), fidelity="capacity")
    compulsory = 3 * 2048**2 * 2
    by_level = [4 * 2048**3 / np.sqrt(capacity / 2) for capacity in (1e6, 64e3)]
    assert list(results.memory.values) == ["dram", "l2", "l1"]
    for moved, minimum in zip(results.traffic.values[0], [*by_level, compulsory], strict=True):
        assert minimum * 0.95 <= moved <= 1.25 * minimum
    assert results.bytes.item() == results.traffic.values[0, 0]
    assert results.bytes_bound.item() == pytest.approx(by_level[0] - 2e6)
    assert results.bound.item() == "l2"


def test_levels_without_numbers_are_warned_of():
    assert memory_levels(described(THREE), "sol") == (MemoryLevel("dram", None),)
    expected = (MemoryLevel("dram", "memory.l2.capacity"), MemoryLevel("l2", "memory.l1.capacity"), MemoryLevel("l1", None))
    assert memory_levels(described(THREE), "capacity") == expected
    assert memory_level_warnings(described(THREE)) == []
    holes = described("  dram: {bandwidth: 1 TB/s}\n  l3: {bandwidth: 2 TB/s}\n  l2: {capacity: 1 MB}")
    assert memory_levels(holes, "capacity") == (MemoryLevel("dram", "memory.l2.capacity"),)
    assert list(map(str, memory_level_warnings(holes))) == [
        "'made': memory level 'l3' has no capacity: time and energy ignore it",
        "'made': memory level 'l2' has no bandwidth: its capacity counts, but its traffic takes no time and no energy",
    ]
    bare = described("  dram: {bandwidth: 1 TB/s}")
    assert list(map(str, memory_level_warnings(bare))) == [
        "'made': no memory level inside 'dram' has a capacity: 'dram' moves compulsory bytes only"
    ]


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "size", "most"),
    [(1, 1, 0, 56, 1), (1, 2, 0, 56, 1), (3, 1, 1, 56, 3), (3, 2, 1, 56, 2), (7, 2, 3, 224, 4), (16, 16, 0, 224, 1), (11, 4, 2, 224, 3),
     (3, 1, 0, 56, 3), (5, 1, 0, 14, 5), (7, 1, 3, 7, 7)],
)  # fmt: skip
def test_uses_of_an_input_are_found_from_sizes_alone(kernel, stride, padding, size, most):
    """ceil(kernel / stride) along each side, which the tables do not state."""
    side = (size + 2 * padding - kernel) // stride + 1
    row = {"name": "c", "kind": "conv", "m": 8, "k": 4 * kernel**2, "n": side**2, "input_elements": 4 * size**2}
    assert input_uses(LayerArrays.from_rows([LayerRow.model_validate(row)]))[1] == most


sizes = st.integers(1, 400)
gemms = st.fixed_dictionaries({"kind": st.just("gemm"), "m": sizes, "k": sizes, "n": sizes, "count": st.integers(1, 3)})
matmuls = st.fixed_dictionaries({"kind": st.just("matmul"), "m": sizes, "k": sizes, "n": sizes})
norms = st.fixed_dictionaries({"kind": st.just("elementwise"), "input_elements": sizes, "output_elements": sizes})


@st.composite
def convolutions(draw) -> dict:
    kernel, groups, channels, side = (
        draw(st.sampled_from([1, 3, 5])),
        draw(st.sampled_from([1, 2, 8])),
        draw(sizes),
        draw(st.integers(1, 30)),
    )
    across = {"k": channels * kernel**2, "n": side**2, "input_elements": groups * channels * side**2}
    return {"kind": "conv", "m": 8 * draw(sizes), "groups": groups, **across}


rows = st.lists(st.one_of(gemms, matmuls, norms, convolutions()), min_size=1, max_size=5)
networks = st.builds(
    lambda rows, density, pattern: network([{"name": f"l{n}", **row} for n, row in enumerate(rows)], density, pattern),
    rows, st.sampled_from([0.5, 0.1, 1.0]), st.sampled_from(["unstructured", "2:4", "row", "column"]),
)  # fmt: skip
options = st.fixed_dictionaries({"overlap": st.sampled_from(["full", "none"]), "activations": st.sampled_from(["implicit", "im2col"])})
ONCE = 1 + 1e-12


@given(networks, st.lists(st.floats(10, 1e8), min_size=2, max_size=4), st.integers(1, 16), options)
def test_capacity_never_beats_the_speed_of_light_and_less_of_it_is_never_faster(variant, capacities, batch, model_options):
    light = evaluate(described(THREE), variant, batch, **model_options).latency.values
    before = np.full(len(light), np.inf)
    for capacity in sorted(capacities):
        chip = described(f"  dram: {{bandwidth: 1 TB/s}}\n  l2: {{capacity: {capacity!r} B}}")
        results = evaluate(chip, variant, batch, fidelity="capacity", **model_options)
        assert np.all(light <= results.latency_bound * ONCE)
        assert np.all(results.latency_bound <= results.latency * ONCE)
        assert np.all(results.latency <= before * ONCE)
        before = results.latency.values


@given(networks, st.integers(1, 16), options)
def test_with_enough_capacity_it_is_the_speed_of_light(variant, batch, model_options):
    chip = described("  dram: {bandwidth: 1 TB/s}\n  l2: {capacity: 1 TB, bandwidth: 10 TB/s}")
    results = evaluate(chip, variant, batch, fidelity="capacity", **{**model_options, "overlap": "full"})
    light = evaluate(chip, variant, batch, **{**model_options, "overlap": "full"})
    np.testing.assert_allclose(results.latency_bound, light.latency, rtol=1e-12)
    assert np.all(results.latency >= light.latency * (1 - 1e-12))
    sparse_convolution = (variant.layers.kind == "conv") & (variant.density < 1)  # what it surely reads is a bound only
    np.testing.assert_allclose(results.latency[~sparse_convolution], light.latency[~sparse_convolution], rtol=1e-12)


@st.composite
def graphs(draw) -> Variant:
    """Networks whose layers read any of those above, of any size, and add others to their results."""
    variant = draw(networks)
    above, links = ["input"], []
    for name in variant.layers.name:
        reads, adds = (draw(st.lists(st.sampled_from(above), min_size=min_size, max_size=2, unique=True)) for min_size in (1, 0))
        links.append((";".join(reads), ";".join(adds) or None))
        above.append(name)
    reads, adds = zip(*links, strict=True)
    return replace(variant, layers=replace(variant.layers, reads=reads, adds=adds))


@given(st.one_of(networks, graphs()), st.lists(st.floats(100, 1e7), min_size=2, max_size=3), st.integers(1, 16))
def test_fusion_is_never_slower_and_has_a_bound_of_its_own(variant, capacities, batch):
    before = np.inf
    for capacity in sorted(capacities):
        chip = described(f"  dram: {{bandwidth: 1 TB/s}}\n  l2: {{capacity: {capacity!r} B}}")
        apart, fused = (evaluate(chip, variant, batch, fidelity="capacity", fusion=fusion) for fusion in ("none", "fitting"))
        assert np.all(fused.latency <= apart.latency * ONCE)
        assert np.all(fused.latency_bound <= fused.latency * ONCE)
        assert np.all(fused.latency_bound <= apart.latency_bound * ONCE)
        assert np.all(fused.latency <= before * ONCE)
        before = fused.latency.values


def test_fused_layers_move_weights_and_the_ends():
    """Widths 8, 64, 64, 4, n = 100, fp16: activations of 12.8 kB stay in 32 kB but not in 16 kB."""
    weights, ends = 2 * (8 * 64 + 64 * 64 + 64 * 4), 2 * 100 * (8 + 4)
    for capacity, moved in (("32 kB", weights + ends), ("16 kB", None)):
        chip = described(f"  dram: {{bandwidth: 1 TB/s}}\n  l2: {{capacity: {capacity}}}")
        fused, apart = (evaluate(chip, chain(8, 64, 64, 4, n=100), fidelity="capacity", fusion=fusion) for fusion in ("fitting", "none"))
        assert fused.bytes_bound.sum() == weights + ends
        assert fused.bytes.sum() == (moved or apart.bytes.sum())


ROW = {"kind": "gemm", "m": 64, "k": 64, "n": 64}
TENSOR, WEIGHTS, LINE = 2 * 64 * 64, 2 * 64 * 64, 2 * 64  # bytes in fp16: of an output, of the weights of a layer, of one row
SKIP = [
    {"name": "a", "reads": "input"}, {"name": "b", "reads": "a"}, {"name": "c", "reads": "b", "adds": "a"}, {"name": "d", "reads": "c"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("capacity", "moved"),
    [
        # a, b and c are live while c runs: the three fit together with one row of c, so only the network's input and output move
        (3 * TENSOR + LINE, [1, 0, 0, 1]),
        # a byte less: none of three equal tensors may stay, so that each is written and read
        (3 * TENSOR + LINE - 1, [2, 2, 2, 2]),
    ],
)
def test_a_skip_connection_takes_capacity_until_it_is_added(capacity, moved):
    chip = described(f"  dram: {{bandwidth: 1 TB/s}}\n  l2: {{capacity: {capacity} B}}")
    results = evaluate(chip, network([ROW | row for row in SKIP]), fidelity="capacity", fusion="fitting")
    np.testing.assert_array_equal(results.bytes, WEIGHTS + TENSOR * np.array(moved))
    np.testing.assert_array_equal(results.bytes_bound, WEIGHTS + TENSOR * np.array([1, 0, 0, 1]))


def test_a_small_tensor_stays_while_a_large_skip_connection_is_read_again():
    """x has 64 x 64 outputs and is added to the result of `up`; between `down` and `up` there are 8 channels. In 4 kB these stay, x does not:
    `up` reads it at its addition, and writes its result."""
    rows = [
        {"name": "x", "kind": "gemm", "m": 64, "k": 8, "n": 64, "reads": "input"},
        {"name": "down", "kind": "gemm", "m": 8, "k": 64, "n": 64, "reads": "x"},
        {"name": "up", "kind": "gemm", "m": 64, "k": 8, "n": 64, "reads": "down", "adds": "x"},
    ]
    chip = described("  dram: {bandwidth: 1 TB/s}\n  l2: {capacity: 4 kB}")
    results = evaluate(chip, network(rows), fidelity="capacity", fusion="fitting")
    weights, narrow = 2 * 64 * 8, 2 * 8 * 64
    np.testing.assert_array_equal(results.bytes, [weights + narrow + TENSOR, weights + TENSOR, weights + narrow + TENSOR])


def test_what_branches_is_written_or_stays_for_the_last_reader():
    """`second` reads `stem`, not the layer listed before it, whose output is the network's and has to be written."""
    rows = [{"name": "stem", "reads": "input"}, {"name": "first", "reads": "stem"}, {"name": "second", "reads": "stem"}]
    chip = described("  dram: {bandwidth: 1 TB/s}\n  l2: {capacity: 1 MB}")
    results = evaluate(chip, network([ROW | row for row in rows]), fidelity="capacity", fusion="fitting")
    np.testing.assert_array_equal(results.bytes, WEIGHTS + TENSOR * np.array([1, 1, 1]))
    np.testing.assert_array_equal(results.bytes_bound, results.bytes)


def test_nothing_is_fused_without_a_layer_graph():
    variant = network([ROW | {"name": name} for name in "ab"])
    chip = described("  dram: {bandwidth: 1 TB/s}\n  l2: {capacity: 1 MB}")
    apart, fused = (evaluate(chip, variant, fidelity="capacity", fusion=fusion) for fusion in ("none", "fitting"))
    np.testing.assert_array_equal(fused.bytes, apart.bytes)
    np.testing.assert_array_equal(fused.bytes_bound, WEIGHTS + TENSOR * np.array([1, 1]))
    assert "no layers are fused because the layer graph is unknown" in fused.attrs["notes"]


def test_a_key_value_cache_is_written_even_where_it_stays(folder):
    """One block, one token, and a large memory: weights, the cache read, the new keys and values written, the input and the output."""
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 100}
    (folder / "decoder").mkdir()
    description = {
        "name": "decoder",
        "task": "t",
        "metric": {"name": "x"},
        "sources": ["a test"],
        "network": {"model_type": "llama"} | sizes,
    }
    (folder / "decoder" / "workload.yaml").write_text(yaml.safe_dump(description))
    net = dse.load_workload(folder / "decoder", phase="decode", sequence=1000)
    chip = described("  dram: {bandwidth: 1 TB/s}\n  l2: {capacity: 1 GB}")
    results = evaluate(chip, net, fidelity="capacity", fusion="fitting").bytes.to_series()
    layers = results.index.str.removeprefix("model.layers.0.")
    moved = dict(zip(layers, results - 2 * net.layers.weights, strict=True))
    new, old = 2 * 64, 2 * 999 * 64
    assert {name: value for name, value in moved.items() if value} == {
        "model.embed_tokens": new, "input_layernorm": new, "self_attn.k_proj": new, "self_attn.v_proj": new,
        "self_attn.scores": old, "self_attn.context": old, "lm_head": 2 * 100,
    }  # fmt: skip


def test_fusion_needs_capacity():
    with pytest.raises(InputError, match="fusion needs on-chip capacity, which fidelity 'sol' leaves out; write 'fidelity: capacity'"):
        evaluate(described(THREE), network([GEMM]), fusion="fitting")


AXES = """
model: {fidelity: capacity}
axes:
  memory.l2.capacity: [16 kB, 1 MB, 10 GB]
  memory.dram.bandwidth: [1 TB/s, 2 TB/s]
"""


@pytest.fixture
def banded(folder, edited) -> Path:
    edited("chip.yaml", ("l2: {capacity: 10 MB}", "l2: {capacity: 10 MB, bandwidth: 3 TB/s}"))
    path = folder / "small.yaml"
    path.write_text(path.read_text() + AXES)
    return path


def test_a_capacity_is_an_axis_that_changes_latency(banded, net):
    grid.breakdown_on_grid.clear_cache()
    results = dse.sweep(banded)
    assert grid.breakdown_on_grid._cache_size() == 1
    chip = dse.load_accelerator(banded.parent / "chip.yaml")
    for a, b, c in np.ndindex(3, 2, 2):
        capacity, bandwidth = (float(results[f"memory.{name}"][at]) for name, at in (("l2.capacity", a), ("dram.bandwidth", b)))
        design = chip.replace({"memory.l2.capacity": f"{capacity!r} B", "memory.dram.bandwidth": f"{bandwidth!r} B/s"})
        for number, variant in enumerate(net.variants):
            here = results.isel(accelerator=0, dtype=0, variant=number)[{"memory.l2.capacity": a, "memory.dram.bandwidth": b, "batch": c}]
            sparse, dense = (evaluate(design, v, int(results.batch[c]), fidelity="capacity").sum() for v in (variant, net.dense))
            expected = {"latency": sparse.latency, "latency_bound": sparse.latency_bound, "dense_latency_bound": dense.latency_bound}
            expected["speedup_low"] = dense.latency_bound / sparse.latency
            expected["speedup_high"] = dense.latency / sparse.latency_bound
            for name, value in expected.items():
                assert here[name].item() == pytest.approx(float(value), rel=1e-12)
    assert np.all(results.latency.diff("memory.l2.capacity") <= 0)
    assert results.latency.sel({"memory.l2.capacity": 16e3}).sum() > 1.1 * results.latency.sel({"memory.l2.capacity": 1e10}).sum()
    assert list(results.resource.values) == ["tensor", "vector", "dram", "l2"]
    np.testing.assert_allclose(results.bound_share.sum("resource"), 1, rtol=1e-12)
    assert np.all((results.speedup_low <= results.speedup * ONCE) & (results.speedup <= results.speedup_high * ONCE))


def test_energy_follows_the_bytes_of_each_capacity(banded, edited):
    edited("chip.yaml", ("memory:", "cost: {process: 7 nm}\nmemory:"))
    banded.write_text(banded.read_text() + "store: {variables: [latency, energy]}\n")
    all_capacities = dse.sweep(banded)
    for number, capacity in enumerate(("16 kB", "1 MB", "10 GB")):
        alone = banded.with_name("alone.yaml")
        alone.write_text(banded.read_text().replace("[16 kB, 1 MB, 10 GB]", f"[{capacity}]"))
        np.testing.assert_allclose(dse.sweep(alone).energy[:, 0], all_capacities.energy[:, number], rtol=1e-12)


def test_lower_bounds_are_stored_under_fidelity_capacity_only(banded):
    banded.write_text(banded.read_text() + "store: {variables: [latency]}\n")
    assert list(dse.sweep(banded)) == ["latency", "latency_bound"]
    banded.write_text(banded.read_text().replace("fidelity: capacity", "fidelity: sol"))
    with pytest.warns(dse.ModelWarning, match=r"memory.l2.capacity: does not change the latency under fidelity 'sol'"):
        assert list(dse.sweep(banded)) == ["latency"]


def test_one_design_and_one_variable(banded):
    text = banded.read_text()
    banded.write_text(text[: text.index("axes:")] + "store: {variables: [latency]}\n")
    assert dse.sweep(banded).latency.dims == ("accelerator", "batch", "dtype", "variant")


def test_ignored_memory_levels_are_warned_of(folder):
    path = folder / "small.yaml"
    path.write_text(path.read_text() + "model: {fidelity: capacity}\n")
    with pytest.warns(
        dse.ModelWarning,
        match="'chip': memory level 'l2' has no bandwidth: its capacity counts, but its traffic takes no time and no energy",
    ):
        results = dse.sweep(path)
    assert "dram" in results.resource
    assert "l2" not in results.resource


def test_accelerators_of_different_depth_share_one_trace(banded):
    """A level that an accelerator lacks takes no time there."""
    text = (banded.parent / "chip.yaml").read_text()
    flat = text.replace("name: chip", "name: flat").replace(", bandwidth: 3 TB/s", ", bandwidth: 1e30 TB/s")
    (banded.parent / "flat.yaml").write_text(flat)
    deep = text.replace("name: chip", "name: deep") + "  l1: {capacity: 1 MB, bandwidth: 1e30 TB/s}\n"
    (banded.parent / "deep.yaml").write_text(deep)
    banded.write_text(banded.read_text().replace("[./chip.yaml]", "[./chip.yaml, ./deep.yaml, ./flat.yaml]"))
    grid.breakdown_on_grid.clear_cache()
    results = dse.sweep(banded)
    assert grid.breakdown_on_grid._cache_size() == 1
    alone = banded.with_name("one.yaml")
    for name in ("chip", "deep", "flat"):
        alone.write_text(banded.read_text().replace("[./chip.yaml, ./deep.yaml, ./flat.yaml]", f"[./{name}.yaml]"))
        np.testing.assert_allclose(dse.sweep(alone).latency[0], results.latency.sel(accelerator=name), rtol=1e-12)


def test_the_speedup_of_the_dense_network_over_itself_is_certain(folder, edited):
    """Its traffic lies between two bounds, but is the same in both latencies."""
    edited("chip.yaml", ("1 TB/s", "20 GB/s"), ("{capacity: 10 MB}", "{capacity: 30 kB, bandwidth: 4 TB/s}"))
    edited("small.yaml", ("methods: all", "methods: [dense, pruned]"))
    (folder / "small.yaml").write_text((folder / "small.yaml").read_text() + "model: {fidelity: capacity, dense_fallback: true}\n")
    results = dse.sweep(folder / "small.yaml")
    dense = results.isel(variant=(results.method == "dense").values)
    assert (dense.latency_bound < dense.latency).any()
    for name in ("speedup", "speedup_low", "speedup_high"):
        assert (dense[name] == 1).all()
        assert dense[name].dims == dense.latency.dims
    others = results.isel(variant=(results.method != "dense").values)
    assert (others.speedup_low < others.speedup).any()
