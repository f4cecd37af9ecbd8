"""Parameters and MACs of the networks agree with published counts, and their layers follow the laws of the architectures."""

import numpy as np
import pytest

import dse
from dse.base import catalog
from dse.networks.layers import LayerArrays
from dse.networks.llama import Llama
from dse.networks.mixtral import Mixtral
from dse.workload import tables

WITH_PUBLISHED_COUNTS = [name for name in catalog.list_names("workloads") if dse.load_workload(name).description.published]
EXPECTED = [
    "resnet50",
    "mobilenet-v1",
    "efficientnet-b0",
    "convnext-t",
    "convnext-b",
    "deit-s",
    "deit-b",
    "swin-t",
    "swin-b",
    "mlp-mixer-b-16",
    "bert-base",
    "bert-large",
    "gpt2",
    "opt-6.7b",
    "llama-2-7b",
    "llama-2-13b",
    "llama-2-70b",
    "llama-3.1-8b",
    "mixtral-8x7b",
]
RECENT = [
    "mistral-7b", "mistral-nemo-12b", "mistral-small-24b", "gemma-2-9b", "gemma-3-1b", "qwen3-0.6b", "qwen3-8b", "qwen3-32b", "qwen3-30b-a3b", "qwen3-235b-a22b",
    "gpt-oss-20b", "gpt-oss-120b", "phi-3-mini", "phi-4", "deepseek-v2-lite", "deepseek-v2", "deepseek-v3", "deepseek-v3.2", "t5-base",
    "flan-t5-xl", "whisper-small", "whisper-large-v3", "clip-vit-l-14", "siglip-so400m-14-384", "gemma-3-4b", "gemma-3-27b", "llama-4-scout",
]  # fmt: skip


def test_common_networks_ship_with_published_counts():
    assert {*EXPECTED, *RECENT} <= set(WITH_PUBLISHED_COUNTS)


@pytest.mark.parametrize("name", WITH_PUBLISHED_COUNTS)
def test_parameters_and_macs_agree_with_published_figures(name):
    """Parameters within 0.5% (those of language models of 2024 and later within 0.1%), multiply-adds within 0.5%; each figure names its source."""
    published = dse.load_workload(name).description.published
    assert len(published.parameters.source) > 10
    layers = dse.load_workload(name, **published.parameters.inputs).layers
    assert layers.parameters == pytest.approx(published.parameters.value, rel=1e-3 if name in RECENT else 5e-3), published.parameters.source
    if published.macs is not None:
        assert len(published.macs.source) > 10
        layers = dse.load_workload(name, **published.macs.inputs).layers
        assert layers.macs == pytest.approx(published.macs.value, rel=5e-3), published.macs.source


# Exact parameter counts, independent of the files: those of the reference implementations
# (torchvision 0.29.2, weights metadata; Hugging Face model cards and Keras Hub 0.32.0 presets for language models).
PARAMETERS = {
    "resnet50": 25_557_032, "efficientnet-b0": 5_288_548, "convnext-t": 28_589_128, "convnext-b": 88_591_464, "deit-b": 86_567_656,
    "swin-t": 28_288_354, "swin-b": 87_768_224, "bert-base": 109_482_240, "gpt2": 124_439_808, "llama-2-7b": 6_738_415_616,
    "llama-2-70b": 68_976_648_192, "llama-3.1-8b": 8_030_261_248, "mixtral-8x7b": 46_702_792_704,
}  # fmt: skip


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_agree_exactly_with_reference_implementations(name):
    assert dse.load_workload(name).layers.parameters == PARAMETERS[name]


MULTIMODAL = ["gemma-3-4b", "gemma-3-27b", "llama-4-scout"]
GENERATIVE = [
    name for name in EXPECTED + RECENT if name.startswith(("llama", "opt", "gpt", "mi", "gemma", "qwen", "phi")) and name not in MULTIMODAL
]


@pytest.mark.parametrize("name", GENERATIVE)
def test_a_decode_step_does_the_work_of_one_token_and_reads_the_cache(name):
    """Prefill of T computes T x T scores; the decode step at T computes T of them, and one token's linear layers."""
    prefill, decode = (dse.load_workload(name, phase=phase, sequence=64, logits="all").layers for phase in ("prefill", "decode"))
    attention = prefill.kind == "matmul"
    work = [layers.m * layers.k * layers.n * layers.count * layers.active * layers.has_flops for layers in (prefill, decode)]
    np.testing.assert_allclose(work[0], 64 * work[1])
    assert prefill.parameters == decode.parameters
    read = decode.input_elements[attention] * decode.count[attention]
    cache = decode.m[attention] * decode.k[attention] * decode.count[attention]
    assert (read >= cache).all()  # every key and value is read once a step
    assert read.sum() < 1.5 * cache.sum() + 1e6


def test_grouped_queries_shrink_only_the_cache_and_its_projections():
    sizes = {
        "model_type": "llama",
        "vocab_size": 100,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
    }
    inputs = Llama.inputs(phase="decode", sequence=1000)
    separate, grouped = (LayerArrays.from_rows(Llama(**sizes, num_key_value_heads=kv).build_layers(inputs)) for kv in (8, 2))
    attention = separate.kind == "matmul"
    assert separate.macs - grouped.macs == 2 * 2 * (8 - 2) * 8 * 64  # narrower k and v projections in two blocks
    cache = [(layers.m * layers.k * layers.count)[attention].sum() for layers in (separate, grouped)]
    assert cache[0] == 4 * cache[1]


def test_fused_attention_moves_no_scores():
    unfused, fused = (dse.load_workload("bert-base", attention=kind, sequence=384).layers for kind in ("unfused", "fused"))
    moved = [((layers.input_elements + layers.output_elements) * layers.count).sum() for layers in (unfused, fused)]
    # scores are written, read and written by softmax, and read again: 12 blocks x 12 heads
    assert moved[0] - moved[1] == 4 * 12 * 12 * 384**2
    assert unfused.macs == fused.macs


def test_a_mixture_has_the_parameters_of_all_experts_and_the_work_of_active_ones():
    sizes = {
        "model_type": "mixtral",
        "vocab_size": 10,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    many, few = (
        LayerArrays.from_rows(Mixtral(**sizes, num_local_experts=8, num_experts_per_tok=active).build_layers(Mixtral.inputs(sequence=4)))
        for active in (8, 2)
    )
    assert many.parameters == few.parameters
    assert many.macs - few.macs == 4 * 3 * 16 * 32 * (8 - 2)


def test_softmax_and_norms_take_time():
    chip, net = dse.load_accelerator("a100-sxm4-80gb"), dse.load_workload("deit-b", attention="unfused")
    layers = dse.evaluate(chip, net.dense, batch=32)
    share = float(layers.latency.where(net.layers.kind == "elementwise").sum() / layers.latency.sum())
    assert 0.1 < share < 0.7


def test_inputs_are_swept_and_label_the_results(tmp_path):
    sweep = tmp_path / "s.yaml"
    sweep.write_text(
        "name: s\naccelerators: [a100-sxm4-80gb]\nbatch: [1]\ndtype: fp16\n"
        "workloads:\n  llama-2-7b: {methods: [dense], inputs: {phase: [prefill, decode], sequence: [512, 4096]}}\n"
    )
    found = dse.sweep(sweep)
    assert list(found.workload.values) == [
        f"llama-2-7b (phase={phase}, sequence={n})" for phase in ("prefill", "decode") for n in (512, 4096)
    ]
    prefill, decode = found.latency.values.reshape(2, 2)
    assert decode[1] > decode[0] > 6.7e9 * 2 / 2039e9  # a step reads at least every weight
    assert prefill[1] > 8 * prefill[0]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"phase": "train"}, "inputs.phase: 'train' is not known here; write one of 'prefill' or 'decode'"),
        ({"sequence": 0}, "inputs.sequence: 0 is out of range; write a number above 0"),
        (
            {"tokens": 7},
            "inputs.tokens: unknown key 'tokens'; known: 'attention', 'attention_pattern', 'indexer_heads', 'indexer_width', 'logits', 'page', 'passes', 'phase', 'runtime', 'sequence', 'sparse_layout'",
        ),
    ],
)
def test_wrong_inputs_are_refused(inputs, message):
    with pytest.raises(dse.InputError) as caught:
        dse.load_workload("llama-2-7b", **inputs)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "inputs", "message"),
    [
        ("bert-base", {"sequence": 513}, "inputs.sequence: 513 tokens, but the network has 512 learned positions; write sequence <= 512"),
        ("gpt2", {"sequence": 2048, "phase": "decode"}, "inputs.sequence: 2048 tokens, but the network has 1024 learned positions"),
        ("opt-6.7b", {"sequence": 2049}, "inputs.sequence: 2049 tokens, but the network has 2048 learned positions"),
        ("whisper-small", {"target": 449}, "inputs.target: 449 tokens, but the network has 448 learned positions; write target <= 448"),
    ],
)
def test_a_network_runs_on_no_more_tokens_than_it_has_learned_positions(name, inputs, message):
    with pytest.raises(dse.InputError) as caught:
        dse.load_workload(name, **inputs)
    assert message in str(caught.value)


def test_a_network_from_a_table_takes_no_inputs():
    with pytest.raises(dse.InputError, match="takes no inputs"):
        dse.load_workload("resnet50", sequence=7)


def test_layers_given_twice_are_refused(tmp_path):
    folder = catalog.find_path("workloads", "deit-s")
    (tmp_path / "workload.yaml").write_text((folder / "workload.yaml").read_text())
    (tmp_path / "layers.csv").write_text("name,kind,m,k,n\nfc,gemm,4,4,1\n")
    with pytest.raises(dse.InputError, match="layers are given twice"):
        tables.load(tmp_path)


def test_the_vocabulary_is_scored_for_the_last_token_by_default():
    """The head of LLaMA-2 7B multiplies 32000 x 4096 weights by one token of each sample, or with `logits: all` by all 4096."""
    last, every = dse.load_workload("llama-2-7b").layers, dse.load_workload("llama-2-7b", logits="all").layers
    assert last.n[-1] == 1
    assert every.macs - last.macs == 32000 * 4096 * 4095


def test_the_output_of_every_layer_but_the_last_is_read():
    for name in EXPECTED + RECENT:
        layers = dse.load_workload(name).layers
        assert layers.graph is not None, name
        assert [number for number, users in enumerate(layers.graph.users) if not users] == [len(layers) - 1], name


@pytest.mark.parametrize(("name", "elements"), [("llama-2-7b", 2 * 32 * 4096), ("llama-3.1-8b", 2 * 32 * 1024), ("gpt2", 2 * 12 * 768)])
def test_the_key_value_cache_holds_a_key_and_a_value_of_each_block_and_token(name, elements):
    for phase in ("prefill", "decode"):
        assert dse.load_workload(name, phase=phase, sequence=100).layers.cache_elements.sum() == 100 * elements
