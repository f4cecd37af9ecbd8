"""What networks occupy in memory, the largest batch that fits, and the figures of serving."""

import numpy as np
import pytest

import dse
from dse.model.footprint import Footprint
from dse.report.show_results import result_tables

# An L4 does not sustain its peak within its 72 W, as it is warned here.
pytestmark = pytest.mark.filterwarnings("ignore:'l4'.* on average, above the 72 W of the design:dse.ModelWarning")

LLAMA = "llama-3.1-8b"
PARAMETERS, KEYS_AND_VALUES = 8_030_261_248, 2 * 8 * 128 * 32  # of the network (its model card); elements of a token (its config.json)
VARIABLES = (
    "latency, fits, footprint, largest_batch, tokens_per_s, time_to_first_token, time_per_output_token, energy, energy_per_token, "
    "power, tokens_per_s_per_watt"
)


def sweep(
    folder, sequence=512, batch="[1, 4]", capacity="[17 GB, 24 GB]", phases="[prefill, decode]", network=LLAMA, output=None, dtype="fp16"
):
    path = folder / "serving.yaml"
    path.write_text(
        f"name: serving\naccelerators: [l4]\nworkloads: {{{network}: {{methods: [dense], inputs: {{phase: {phases}, sequence: {sequence}}}}}}}\n"
        f"batch: {batch}\ndtype: {dtype}\naxes: {{memory.dram.capacity: {capacity}, memory.dram.bandwidth: [300 GB/s, 600 GB/s]}}\n"
        f"store: {{variables: [{VARIABLES}]}}\n"
    )
    return dse.sweep(path, output) if output else dse.sweep(path)


def test_a_network_with_a_long_context_does_not_fit_and_the_note_says_by_how_much(folder):
    results = sweep(folder, sequence=131072, batch=64, capacity="[24 GB]", phases="decode")
    expected = 2 * (PARAMETERS + 64 * 131072 * KEYS_AND_VALUES)
    assert float(results.footprint.min()) == pytest.approx(expected, rel=1e-3)  # activations are small
    assert not results.fits.any()
    (note,) = [note for table in result_tables(results) for note in table.notes if "more than the 24 GB of l4" in note]
    assert "takes 1.116 TB, 1.092 TB more" in note


def test_the_largest_batch_is_the_last_one_that_fits(folder):
    batches = list(range(1, 40))
    results = sweep(folder, sequence=2048, batch=batches, dtype="fp8", capacity="[9 GB, 12 GB]")
    np.testing.assert_array_equal(results.fits, (results.largest_batch >= results.batch).transpose(*results.fits.dims))
    assert (results.largest_batch == results.largest_batch.isel(batch=0)).all()
    assert 0 < int(results.largest_batch.min()) < 39


@pytest.mark.parametrize(("capacity", "batch"), [(9.9, 0), (10, 0), (11.9, 0), (12, 1), (30, 10), (np.inf, np.inf)])
def test_the_largest_batch_by_hand(capacity, batch):
    """10 B of weights, and 2 B of each sample."""
    assert Footprint(10.0, 9.0, 3.0, 6).largest_batch(capacity) == batch


def test_a_network_without_activations_fits_any_batch_or_none():
    footprint = Footprint(10.0, 0.0, 0.0, 1)
    assert (footprint.largest_batch(10.0), footprint.largest_batch(9.0)) == (np.inf, 0)


def test_figures_of_serving_follow_from_latency_energy_and_power(folder):
    results = sweep(folder)
    prefill, decode = (results.where(results.workload.str.contains(phase), drop=True) for phase in ("prefill", "decode"))
    np.testing.assert_array_equal(prefill.time_to_first_token, prefill.latency)
    np.testing.assert_array_equal(decode.time_per_output_token, decode.latency)
    assert prefill.time_per_output_token.isnull().all()
    assert decode.time_to_first_token.isnull().all()
    for part, tokens in ((prefill, 512), (decode, 1)):
        np.testing.assert_allclose(part.tokens_per_s * part.latency, tokens * part.batch.broadcast_like(part.latency), rtol=1e-12)
        np.testing.assert_allclose(part.energy_per_token * part.tokens_per_s, part.energy / part.latency, rtol=1e-12)
        np.testing.assert_allclose(part.tokens_per_s_per_watt * part.power, part.tokens_per_s, rtol=1e-12)


def test_networks_that_generate_no_text_have_no_tokens(folder):
    path = folder / "image.yaml"
    path.write_text(
        "name: image\naccelerators: [l4]\nworkloads: {resnet50: {methods: [dense]}}\ndtype: fp16\nstore: {variables: [latency, tokens_per_s, energy_per_token]}\n"
    )
    results = dse.sweep(path)
    assert results.tokens_per_s.isnull().all()
    assert results.energy_per_token.isnull().all()


def test_a_store_has_the_same_variables(folder):
    """Its chunks have parts of the axes, on which the footprint does not depend."""
    results, store = sweep(folder), sweep(folder, output=folder / "serving.zarr")
    for name in ("footprint", "largest_batch", "tokens_per_s", "energy_per_token"):
        np.testing.assert_array_equal(results[name], store[name])
    assert results.footprint.dims == ("accelerator", "batch", "dtype", "variant")
