"""Networks of several parts: towers for images and text, and language models with an image tower."""

import json
from typing import Any

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.base.strict_model import validate_mapping
from dse.networks.architecture import AttentionInputs, GenerationInputs
from dse.networks.clip import SigLIPVision
from dse.networks.gemma import Gemma3
from dse.networks.layers import LayerArrays, LayerRow
from dse.networks.llama4 import Llama4Text
from dse.networks.multimodal import name_part, repeat_part
from dse.readers.config_json import read_config

MULTIMODAL = ["gemma-3-4b", "gemma-3-27b", "llama-4-scout"]


def layers_of(name: str, **inputs) -> LayerArrays:
    return dse.load_workload(name, **inputs).layers


def work_of(layers: LayerArrays, part: str) -> float:
    """Multiply-adds of the layers of a part."""
    done = layers.m * layers.k * layers.n * layers.count * layers.active * layers.has_flops
    return float(sum(macs for name, macs in zip(layers.name, done, strict=True) if name.startswith(part)))


# -- parts


def test_layers_of_a_part_are_named_after_it_and_read_its_layers():
    rows = [
        LayerRow(name="a", kind="elementwise", input_elements=1, output_elements=1, reads="input"),
        LayerRow(name="b", kind="elementwise", input_elements=1, output_elements=1, reads="a;input", adds="a"),
    ]
    first, second = name_part("tower", rows, entry="embedding")
    assert (first.name, first.reads) == ("tower.a", "embedding")
    assert (second.reads, second.adds) == ("tower.a;embedding", "tower.a")


def test_a_part_that_runs_several_times_does_so_much_more_work():
    rows = SigLIPVision(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=4
    ).build_layers(AttentionInputs.model_validate({}))  # fmt: skip
    one, three = (LayerArrays.from_rows(repeat_part(rows, times)) for times in (1, 3))
    assert three.macs == 3 * one.macs
    assert three.parameters == one.parameters
    assert three.input_elements.sum() < 3 * one.input_elements.sum() + 1


# -- CLIP and SigLIP


@pytest.mark.parametrize(
    ("name", "part", "gflops"),
    [
        ("clip-vit-l-14", "vis", 162.03), ("clip-vit-l-14", "text", 13.3),
        ("siglip-so400m-14-384", "vision", 670.35), ("siglip-so400m-14-384", "text", 53.13),
    ],
)  # fmt: skip
def test_work_of_each_tower_agrees_with_open_clip(name, part, gflops):
    """docs/model_profile.csv of open_clip, two FLOPs to a multiply-add."""
    assert 2 * work_of(layers_of(name), part) / 1e9 == pytest.approx(gflops, rel=1e-3)


def test_a_tower_is_a_network_of_its_own(tmp_path):
    sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24}
    config = {"model_type": "clip_vision_model", "image_size": 224, "patch_size": 14, **sizes}
    (tmp_path / "config.json").write_text(json.dumps(config))
    tower = LayerArrays.from_rows(list(read_config(tmp_path / "config.json", {}).layers))
    whole = layers_of("clip-vit-l-14")
    assert work_of(tower, "") == work_of(whole, "vision_model")
    assert set(whole.name) >= {f"vision_model.{name}" for name in tower.name}


def test_text_is_masked_in_clip_and_not_in_siglip():
    for name, is_causal in (("clip-vit-l-14", True), ("siglip-so400m-14-384", False)):
        layers = layers_of(name)
        number = layers.name.index("text_model.encoder.layers.0.self_attn.scores")
        assert bool(layers.causal[number]) is is_causal
        assert not layers.causal[layers.name.index("vision_model.encoder.layers.0.self_attn.scores")]


# -- language models with an image tower


@pytest.mark.parametrize("name", MULTIMODAL)
def test_decode_steps_keep_the_parameters_of_the_tower(name):
    prefill, text, decode = (
        layers_of(name, sequence=4096, **inputs) for inputs in ({"images": 2}, {"images": 0}, {"phase": "decode"})
    )  # fmt: skip
    assert prefill.parameters == text.parameters == decode.parameters
    assert prefill.cache_elements.sum() == text.cache_elements.sum() == decode.cache_elements.sum()
    for idle in (text, decode):
        assert idle.name[:2] == ("vision_model", "language_model.model.embed_tokens")
        assert not idle.input_elements[0]
    assert work_of(prefill, "language_model") == work_of(text, "language_model")


@pytest.mark.parametrize("name", MULTIMODAL)
def test_images_are_a_batch_of_the_tower(name):
    one, four = (layers_of(name, sequence=4096, images=images) for images in (1, 4))
    for part in ("vision_model", "multi_modal_projector"):
        assert work_of(four, part) == 4 * work_of(one, part)
    assert work_of(four, "language_model") == work_of(one, "language_model")


def test_the_tower_of_gemma_3_by_hand():
    """4,096 patches of 14 x 14 x 3 pixels in 27 blocks of width 1152 and 4304, averaged to 256 tokens (arXiv 2503.19786, section 2)."""
    layers, width, inner, patches = layers_of("gemma-3-4b"), 1152, 4304, 64**2
    blocks = 27 * (patches * (4 * width**2 + 2 * width * inner) + 2 * patches**2 * width)
    assert work_of(layers, "vision_model") == patches * 588 * width + blocks
    assert work_of(layers, "multi_modal_projector") == 256 * width * 2560
    reads = dict(zip(layers.name, layers.reads, strict=True))
    assert reads["language_model.model.embed_tokens"] == "input;multi_modal_projector.mm_input_projection"


def test_more_images_than_tokens_are_refused():
    with pytest.raises(InputError, match="4 images take 1024 tokens of a sequence of 1000; write fewer images, or sequence >= 1024"):
        dse.load_workload("gemma-3-4b", sequence=1000, images=4)


def test_patches_that_cannot_be_averaged_are_refused():
    vision = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 8,
        "patch_size": 4,
    }
    text = {"model_type": "gemma3_text", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    with pytest.raises(InputError, match="4 patches cannot be averaged to 256 tokens; write mm_tokens_per_image that divides"):
        validate_mapping(Gemma3, {"model_type": "gemma3", "text_config": text, "vision_config": vision})


# -- Llama 4


def test_three_of_four_blocks_of_llama_4_attend_to_their_chunk():
    """20,000 tokens are two chunks of 8,192 and one of 3,616; the cache of such blocks keeps the last one."""
    layers = layers_of("llama-4-scout", sequence=20_000)
    at = {"chunked": "language_model.model.layers.0.self_attn", "full": "language_model.model.layers.3.self_attn"}
    sizes = {name: (m, n, c) for name, m, n, c in zip(layers.name, layers.m, layers.n, layers.count, strict=True)}
    assert sizes[f"{at['chunked']}.scores"] == (8192, 5 * 8192, 8 * 2)
    assert sizes[f"{at['chunked']}.last_chunk.scores"] == (3616, 5 * 3616, 8)
    assert sizes[f"{at['full']}.scores"] == (20_000, 5 * 20_000, 8)
    assert layers.cache_elements.sum() == 2 * 1024 * (36 * 3616 + 12 * 20_000)
    reads = dict(zip(layers.name, layers.reads, strict=True))
    assert reads[f"{at['chunked']}.o_proj"] == f"{at['chunked']}.context;{at['chunked']}.last_chunk.context"


@pytest.mark.parametrize(("sequence", "keys"), [(8192, 8192), (8193, 1), (20_000, 3616), (100, 100)])
def test_a_decode_step_attends_to_its_own_chunk(sequence, keys):
    layers = layers_of("llama-4-scout", sequence=sequence, phase="decode", images=0)
    assert layers.m[layers.name.index("language_model.model.layers.1.self_attn.scores")] == keys
    assert layers.m[layers.name.index("language_model.model.layers.3.self_attn.scores")] == sequence


def test_chunks_are_brute_force_counts_of_the_mask():
    """Scores of all chunks, as rectangles, for each length to 40 and chunks of 8."""
    sizes: dict[str, Any] = {"vocab_size": 10, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    network = Llama4Text(**sizes, num_local_experts=2, num_experts_per_tok=1, intermediate_size_mlp=8, attention_chunk_size=8)
    for tokens in range(1, 41):
        layers = LayerArrays.from_rows(network.build_layers(GenerationInputs.model_validate({"sequence": tokens})))
        scores = [name.endswith("scores") for name in layers.name]
        chunks = np.arange(tokens) // 8
        assert (layers.m * layers.n * layers.count)[scores].sum() == 2 * (chunks[:, None] == chunks).sum()


def test_active_parameters_of_llama_4_scout():
    """17 G of the model card: one routed and one shared expert, attention, and both tables."""
    layers = layers_of("llama-4-scout", phase="decode", sequence=1000)
    assert (layers.active_weights + 202_048 * 5120) / 1e9 == pytest.approx(17, abs=0.5)


def test_flags_of_all_blocks_are_needed():
    sizes: dict[str, Any] = {"vocab_size": 10, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    experts = {"num_local_experts": 2, "num_experts_per_tok": 1, "intermediate_size_mlp": 8}
    with pytest.raises(InputError, match="1 no_rope_layers for 2 blocks; write one for each"):
        validate_mapping(Llama4Text, {**sizes, **experts, "no_rope_layers": [1]})


def test_unused_keys_and_defaults_of_parts_are_named(tmp_path):
    text = {"model_type": "gemma3_text", "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "rope_theta": 1}
    vision = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 8,
        "patch_size": 4,
    }
    config = {"model_type": "gemma3", "text_config": text, "vision_config": vision, "mm_tokens_per_image": 4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    notes = " ".join(read_config(tmp_path / "config.json", {"sequence": 8}).notes)
    assert "text_config.vocab_size 262208" in notes
    assert "do not depend on: text_config.rope_theta" in notes
