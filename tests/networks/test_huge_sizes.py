"""Configurations whose sizes are valid one by one, but whose layers are not."""

import json

import pytest

import dse
from dse.base.errors import InputError
from dse.base.strict_model import validate_mapping
from dse.cli.entry import main
from dse.networks.registry import Mixtral, Swin

MIXTRAL = {
    "model_type": "mixtral", "vocab_size": 32_000, "hidden_size": 10**9, "intermediate_size": 10**9, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 8, "num_local_experts": 10**9, "num_experts_per_tok": 10**9,
}  # fmt: skip


def test_a_huge_mixture_of_experts_is_refused_with_the_name_of_a_layer(tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps(MIXTRAL))
    assert main(["trace", str(tmp_path / "config.json"), "-o", str(tmp_path / "out")]) == 2
    (message,) = capsys.readouterr().err.splitlines()
    assert message.startswith(f"{tmp_path / 'config.json'}: layer 'model.layers.0.block_sparse_moe.experts.product' has sizes that are not")
    assert "(input_elements: 4096000000000000000000 is out of range" in message
    assert not (tmp_path / "out").exists()


def test_a_huge_mixture_of_experts_in_a_workload_is_refused_with_its_line(tmp_path):
    description = {"name": "huge", "task": "none", "metric": {"name": "loss"}, "sources": ["a test"], "network": MIXTRAL}
    (tmp_path / "workload.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in description.items()))
    with pytest.raises(InputError, match=r"workload.yaml:5: network: layer .model.layers.0.block_sparse_moe.experts.product. has sizes"):
        dse.load_workload(tmp_path)


def test_blocks_are_counted_over_all_stages():
    """Stages of 10 000 blocks each, 100 of them, would be a million layers."""
    sizes = {"model_type": "swin", "image_size": 224, "embed_dim": 96, "num_heads": [2] * 3}
    assert validate_mapping(Swin, {**sizes, "depths": [2, 2, 1996]})
    with pytest.raises(InputError, match="depths: 2001 blocks are more than any network has; write depths of at most 2000 together"):
        validate_mapping(Swin, {**sizes, "depths": [2, 3, 1996]})
    with pytest.raises(InputError, match="num_hidden_layers: 10000 is out of range; write a number of at most 2000"):
        validate_mapping(Mixtral, {**MIXTRAL, "num_hidden_layers": 10_000})
