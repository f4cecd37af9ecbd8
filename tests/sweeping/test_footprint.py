"""What a network occupies in the outermost memory, and whether it fits."""

import numpy as np

import dse
from dse.base.dtype import OperandDtypes
from dse.model.footprint import peak_activation_bytes
from dse.networks.layers import LayerArrays, LayerRow


def test_fits_compares_stored_weights_with_the_outermost_memory(folder):
    path = folder / "small.yaml"
    path.write_text(path.read_text() + "axes:\n  memory.dram.capacity: [30 MB, 60 MB, 100 MB]\n")
    results = dse.sweep(path).isel(accelerator=0, dtype=0, batch=0)
    # dense fp16 weights of the unpruned layers, and 2 x 4096 x 4096 pruned ones
    rest = 2 * (64 * 147 + 1000 * 512)
    sizes = {
        "semi": rest + 2 * 4096**2 * 2 * 0.5625,
        "blocky": rest + 2 * (4096**2 * 2 / 4 + 4 * 4096**2 / 4 / 64 + 4 * (512 + 1)),
    }
    for method, size in sizes.items():
        fits = results.fits.isel(variant=list(results.method.values).index(method))
        assert list(fits.values) == [size <= limit for limit in (30e6, 60e6, 100e6)]


def test_activations_at_the_batch_take_memory_besides_the_weights(folder):
    """`wide` has the largest working set: 2 x 4096 x 512 activations of 2 B a sample; its two repeats run one after the other."""
    path = folder / "small.yaml"
    weights = 2 * (64 * 147 + 1000 * 512) + 2 * 4096**2 * 2 * 0.5625
    exact = [weights + batch * 2 * 2 * 4096 * 512 for batch in (1, 16)]
    path.write_text(path.read_text() + f"axes:\n  memory.dram.capacity: [{exact[0]!r} B, {exact[1] - 1!r} B, {exact[1]!r} B]\n")
    results = dse.sweep(path).isel(accelerator=0, dtype=0)
    fits = results.fits.isel(variant=list(results.method.values).index("semi"))
    np.testing.assert_array_equal(fits, [[True, False], [True, False], [True, True]])
    assert "key-value cache and the largest working set" in results.fits.attrs["long_name"]


def test_a_key_value_cache_takes_memory(folder, edited):
    """Of LLaMA-2 7B: 13.5 GB of weights and, for each sample of 4096 tokens, 32 blocks of 4096 keys and values of 2 B: 2.15 GB."""
    edited("small.yaml", ("./net: {methods: all}", "llama-2-7b: {methods: [dense], inputs: {phase: decode, sequence: [1024, 4096]}}"))
    path = edited("small.yaml", ("[1, 16]", "[1, 2, 4]"))
    path.write_text(path.read_text() + "axes:\n  memory.dram.capacity: [16 GB, 24 GB]\n")
    fits = dse.sweep(path).fits.isel(accelerator=0, dtype=0)
    weights, cache = 2 * 6_738_415_616, 2 * 32 * 2 * 4096 * 4096
    assert weights + cache < 16e9 < weights + 2 * cache  # what a token needs besides is below 1 MB
    np.testing.assert_array_equal(fits.isel({"memory.dram.capacity": 0, "variant": 1}), [True, False, False])
    np.testing.assert_array_equal(fits.isel({"memory.dram.capacity": 0, "variant": 0}), [True, True, True])
    assert fits.isel({"memory.dram.capacity": 1}).all()


def test_a_skip_connection_takes_memory_as_long_as_it_is_needed():
    """While `c` runs, the outputs of `a`, `b` and `c` are needed: three tensors, not the two that `c` moves."""
    rows = [{"name": "a", "reads": "input"}, {"name": "b", "reads": "a"}, {"name": "c", "reads": "b", "adds": "a"}]
    rows = [LayerRow.model_validate(row | {"kind": "gemm", "m": 64, "k": 64, "n": 10}) for row in rows]
    dtype, unknown = OperandDtypes.model_validate("fp16"), [row.model_copy(update={"reads": None, "adds": None}) for row in rows]
    assert peak_activation_bytes(LayerArrays.from_rows(rows), 3, dtype) == 3 * 3 * 64 * 10 * 2
    assert peak_activation_bytes(LayerArrays.from_rows(unknown), 3, dtype) == 3 * 2 * 64 * 10 * 2


def test_weights_fit_where_no_capacity_is_given(folder, edited):
    edited("chip.yaml", ("capacity: 1 GB, ", ""))
    assert dse.sweep(folder / "small.yaml").fits.all()
