"""Fidelity `calibrated` predicts fused attention of networks as one kernel."""

import numpy as np
import pytest

import dse
from dse.base import catalog
from dse.base.dtype import parse_dtype
from dse.model.efficiency.attention.layers import find_fused_attention
from dse.model.efficiency.attention.selection import select_attention, select_transferred
from dse.model.efficiency.efficiency_file import available_kernels, shipped_attention
from dse.model.network_terms import efficiency_of, network_terms
from dse.schema.model_options import ModelOptions
from dse.searching.run import load_evaluator
from tests.model.efficiency.attention.attention_cases import GPU, make_launches

RECORDS = shipped_attention()
NETWORKS = {
    "llama": {"hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 2048},
    "mistral": {"hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 2048, "sliding_window": 1024},
    "bert": {
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
    },
}


def network(model_type="mistral", **inputs):
    """Two blocks of a network that is in no catalogue."""
    description = {"model_type": model_type, "vocab_size": 1000, "num_hidden_layers": 2, **NETWORKS[model_type]}
    task = {"name": "net", "task": "none", "metric": {"name": "loss", "unit": "1", "direction": "lower"}, "sources": ["test"]}
    return dse.load_workload({**task, "network": description, "inputs": inputs})


def attention_of(results):
    """The products of attention, without those of indexers."""
    return results.isel(layer=[layer.endswith((".scores", ".context")) and "indexer" not in layer for layer in results.layer.values])


def evaluate(workload, device="a100-sxm4-80gb", batch=4, **options):
    return dse.evaluate(device, workload, batch=batch, dtype="bf16", fidelity="calibrated", **options)


@pytest.mark.parametrize(
    ("inputs", "sizes"),
    [
        ({"phase": "prefill", "sequence": 512}, {"queries": 512, "keys": 512}),
        ({"phase": "prefill", "sequence": 4096}, {"queries": 4096, "keys": 4096, "window": 1024}),
        ({"phase": "decode", "sequence": 700}, {"queries": 1, "keys": 700}),
        ({"phase": "decode", "sequence": 4096}, {"queries": 1, "keys": 1024}),
    ],
)
def test_two_products_take_the_time_of_one_kernel(inputs, sizes):
    products = attention_of(evaluate(network(**inputs)))
    launches = make_launches(rates=GPU, sequences=4, heads=8, kv_heads=2, size=128, **sizes)
    (record,) = [r for r in RECORDS if (r.device, r.phase) == ("a100-sxm4-80gb", launches.key.phase)]
    moved = 2 * (8 * sizes["queries"] + 2 * min(sizes["keys"], 1024)) * 128 * 2 * 4  # layers of a window read its keys only
    overhead, unit, memory = record.model.time_components(launches, np.array([float(moved)]))
    assert set(products.kernel.values) == {f"{record} (measured)"}
    assert products.latency.values == pytest.approx(float(overhead[0] + (unit[0] ** 4 + memory[0] ** 4) ** 0.25) / 2, rel=1e-3)
    assert float(products.flops.sum()) == pytest.approx(2 * float(launches.flops[0]), rel=1e-6)


def test_unfused_attention_and_tables_without_queries_are_products():
    fused, unfused = (network(sequence=512, attention=kind) for kind in ("fused", "unfused"))
    assert list(find_fused_attention(unfused.layers)) == []
    assert [fused.layers.name[pair] for pair in find_fused_attention(fused.layers)] == [
        f"model.layers.{number}.self_attn.scores" for number in range(2)
    ]
    assert all("dense" in kernel for kernel in attention_of(evaluate(unfused)).kernel.values)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_longer_sequences_and_larger_batches_are_never_faster(phase):
    times = [float(attention_of(evaluate(network(phase=phase, sequence=n))).latency.sum()) for n in (64, 100, 256, 700, 1000)]
    assert np.all(np.diff(times) >= 0)
    decoding = network(phase=phase, sequence=300)
    times = [float(attention_of(evaluate(decoding, batch=batch)).latency.sum()) for batch in (1, 2, 5, 16, 64, 100)]
    assert np.all(np.diff(times) >= 0)


def test_a_decode_takes_no_less_than_its_cache_at_the_bandwidth():
    products = attention_of(evaluate(network(phase="decode", sequence=1024), batch=1024))
    cache_bytes = 2 * 1024 * 1024 * 2 * 128 * 2
    assert float(products.latency.sum()) > 2 * cache_bytes / GPU.bandwidth
    assert float(products.latency.sum()) < 2 * 2 * cache_bytes / GPU.bandwidth


def test_a_device_without_fits_takes_the_mean_of_others_with_a_wider_interval():
    prefill = network(phase="prefill", sequence=1024)
    measured, transferred = (attention_of(evaluate(prefill, device)) for device in ("a100-sxm4-80gb", "h100-sxm5-80gb"))
    assert set(transferred.kernel.values) == {"mean of a100-sxm4-80gb, b200-sxm-180gb, l40s prefill bf16 (transferred)"}
    widths = [np.log(each.latency_high / each.latency_low).values for each in (measured, transferred)]
    assert np.all(widths[1] > widths[0])
    assert select_attention(RECORDS, "h100-sxm5-80gb", "prefill", 16).log_deviation > 0
    assert select_transferred([], "prefill") is None


def test_encoders_take_the_kernel_of_encoders():
    products = attention_of(evaluate(network("bert", sequence=512), "l40s"))
    assert set(products.kernel.values) == {"l40s vllm_vit_flash_attn_fa2 vllm/0.24.0 encoder bf16 (measured)"}


DEVICES = [name for name in catalog.list_names("accel_models") if dse.load_accelerator(name).scores()]


@pytest.mark.filterwarnings("ignore::dse.sweeping.model_warnings.ModelWarning")  # products are transferred
@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_speed_of_light_of_attention_is_a_lower_bound_on_every_device(name, phase):
    dtype = "bf16" if any("bf16" in unit.peak for unit in dse.load_accelerator(name).units.values()) else "fp16"
    for pattern in ("causal", "window:1024", "chunk:1024", "topk:512"):
        for sequence in (1024, 131072):
            workload = network("llama", phase=phase, sequence=sequence, attention_pattern=pattern)
            times = [dse.evaluate(name, workload, batch=4, dtype=dtype, fidelity=fidelity) for fidelity in ("sol", "calibrated")]
            for bound, predicted in (times, map(attention_of, times)):
                assert float(bound.latency.sum()) <= float(predicted.latency.sum()), (pattern, sequence)


def with_scores(patterns):
    """The A100 without `scores`, or with those of some patterns in tiles of 128 x 64."""
    data = dse.load_accelerator("a100-sxm4-80gb").to_dict()
    for unit in data["units"].values():
        unit["runs"]["dense"].pop("scores")
        if patterns:
            unit["runs"]["dense"]["scores"] = {"patterns": patterns, "tile": "128x64"}
    return data


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("pattern", ["causal", "window:512", "chunk:512", "topk:512", "topk:8x64", "window:256+global:256"])
def test_a_unit_that_lists_what_it_leaves_out_runs_the_same_fitted_kernel(pattern, phase):
    workload = network("llama", phase=phase, sequence=4096, attention_pattern=pattern)
    shipped, unlisted = (attention_of(evaluate(workload, device)) for device in ("a100-sxm4-80gb", with_scores([])))
    assert list(shipped.kernel.values) == list(unlisted.kernel.values)
    indices = 0.01 if pattern.startswith("topk") else 1e-9  # those of chosen keys are read, too
    assert shipped.latency.values == pytest.approx(unlisted.latency.values, rel=indices)


def test_latent_attention_takes_the_same_products_in_decode_and_fewer_in_prompts():
    """Its products are not fused: values are part of the keys, which the product with them does not read again."""
    for phase, at_most in (("decode", 1.0), ("prefill", 0.6)):
        workload = dse.load_workload("deepseek-v2-lite", phase=phase, sequence=8192)
        shipped, unlisted = (attention_of(evaluate(workload, device)) for device in ("a100-sxm4-80gb", with_scores([])))
        assert 0.5 * at_most <= float(shipped.latency.sum() / unlisted.latency.sum()) <= at_most * (1 + 1e-9)
        if phase == "decode":
            assert shipped.latency.values == pytest.approx(unlisted.latency.values)


def test_chosen_keys_run_as_causal_attention_where_a_unit_lists_nothing_else():
    chosen, causal = (network("llama", sequence=4096, attention_pattern=pattern) for pattern in ("topk:512", "causal"))
    device = with_scores(["causal"])
    times = [attention_of(evaluate(workload, device)).latency.values for workload in (chosen, causal)]
    assert times[0] == pytest.approx(times[1])
    assert times[0].sum() > 2 * attention_of(evaluate(chosen)).latency.sum()


def test_real_devices_whose_attention_runs_by_fitted_kernels_list_the_scores_that_they_leave_out():
    for name in catalog.list_names("accel_models"):
        device = dse.load_accelerator(name)
        if not device.hypothetical and any(unit.processors for unit in device.units.values()):
            assert name in DEVICES


def test_a_unit_without_processors_keeps_products():
    data = dse.load_accelerator("a100-sxm4-80gb").to_dict()
    del data["units"]["tensor_core"]["processors"]
    products = attention_of(evaluate(network(phase="prefill", sequence=512), data))
    assert all("dense" in kernel for kernel in products.kernel.values)


@pytest.mark.filterwarnings("ignore::dse.sweeping.model_warnings.ModelWarning")  # products are transferred from fp16
def test_a_sweep_and_evaluate_agree():
    prefill = network(phase="prefill", sequence=512)
    spec = {
        "name": "s", "accelerators": ["a100-sxm4-80gb"], "workloads": [prefill], "batch": [4], "dtype": ["bf16"],
        "model": {"fidelity": "calibrated"}, "axes": {"memory.dram.bandwidth": ["1 TB/s", "2039 GB/s", "4 TB/s"]},
    }  # fmt: skip
    latency = np.squeeze(dse.sweep(spec).latency.values)
    assert latency[1] == pytest.approx(float(evaluate(prefill).latency.sum()), rel=1e-5)
    assert latency[0] >= latency[1] >= latency[2]


def test_the_time_of_a_design_does_not_depend_on_which_of_its_peaks_is_swept():
    """Attention that the unit bounds takes half the time at twice the peak, and no other execution runs it."""
    base, prefill = dse.load_accelerator("a100-sxm4-80gb"), network(phase="prefill", sequence=4096).dense
    options, dtype = ModelOptions(fidelity="calibrated"), parse_dtype("bf16")
    efficiency = efficiency_of(options, available_kernels(base, options), base)
    faster = base.replace({f"units.tensor_core.peak.{name}": "624 TFLOP/s" for name in ("bf16", "fp16")})
    terms = [network_terms(device, prefill, 4, dtype, options, efficiency) for device in (base, faster)]
    assert terms[0].slowdown is not None
    assert terms[1].slowdown == pytest.approx(terms[0].slowdown)
    assert terms[1].overhead == pytest.approx(terms[0].overhead)
    pairs = find_fused_attention(terms[0].layers)
    assert terms[0].legal[pairs].sum() == terms[0].legal[pairs + 1].sum() == len(pairs)


def test_a_stated_launch_latency_replaces_the_fitted_one():
    data = dse.load_accelerator("a100-sxm4-80gb").to_dict()
    decoding = network(phase="decode", sequence=128)
    times = [attention_of(evaluate(decoding, {**data, "overhead": {"launch": f"{n} us"}})).latency.values for n in (1, 2, 10)]
    assert times[1] - times[0] == pytest.approx(0.5e-6)  # half for each of the two layers
    assert times[2] - times[0] == pytest.approx(4.5e-6)


@pytest.mark.filterwarnings("ignore:.*by a kernel that was not measured there:dse.ModelWarning")
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_designs_of_a_search_have_the_latency_of_a_sweep(phase):
    axes = {
        "units.tensor_core.processors": [40, 128], "units.tensor_core.peak.bf16": ["100 TFLOP/s", "400 TFLOP/s"],
        "memory.dram.bandwidth": ["1 TB/s", "4 TB/s"], "memory.l2.capacity": ["1 MB", "64 MB"], "overhead.launch": ["3 us", "30 us"],
    }  # fmt: skip
    spec = {
        "name": "s", "accelerators": ["a100-sxm4-80gb"], "workloads": [network(phase=phase, sequence=2048)], "batch": [4],
        "dtype": ["bf16"], "model": {"fidelity": "calibrated"}, "axes": axes,
    }  # fmt: skip
    evaluator = load_evaluator(spec | {"search": {"maximize": ["performance"], "minimize": ["area"]}})
    designs = evaluator.space.grid_designs(0, evaluator.space.size)
    latency, described = evaluator.evaluate(designs)["latency"], evaluator.space.decode(designs)
    sweep = dse.sweep(spec).squeeze()
    for number in range(len(designs)):
        at = {path: values[number] for path, values in described.items()}
        assert latency[number] == pytest.approx(sweep.sel(at).latency.item(), rel=1e-6)


def test_releases_are_ordered_by_their_numbers():
    """0.24 is newer than 0.9."""
    record = next(record for record in RECORDS if record.phase == "prefill")
    releases = [record.model_copy(update={"release": release}) for release in ("vllm/0.24.0", "vllm/0.9.2")]
    assert select_attention(releases, record.device, "prefill", record.bits[1]).record.release == "vllm/0.24.0"
