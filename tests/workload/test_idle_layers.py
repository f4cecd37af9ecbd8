"""Variants of networks whose phases run different layers."""

import json

import numpy as np
import pytest

import dse
from dse.base.errors import InputError

T5 = {"model_type": "t5", "vocab_size": 10, "d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 1, "num_heads": 4}


@pytest.fixture
def folder(tmp_path):
    described = {"name": "t5", "task": "none", "metric": {"name": "loss"}, "sources": ["a test"], "network": T5, "inputs": {"sequence": 8}}
    (tmp_path / "workload.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in described.items()))
    (tmp_path / "variants").mkdir()
    rows = ["encoder.block.0.layer.1.DenseReluDense.wi,256", "decoder.block.0.layer.2.DenseReluDense.wi,128"]
    table = "method,pattern,sparsity,layer,nnz\n" + "".join(f"pruned,unstructured,0.5,{row}\n" for row in rows)
    (tmp_path / "variants" / "pruned.csv").write_text(table)
    return tmp_path


def test_rows_of_the_encoder_are_left_out_of_a_decode_step(folder):
    prefill, decode = (dse.load_workload(folder, phase=phase).variant("pruned") for phase in ("prefill", "decode"))
    assert prefill.density[prefill.layers.name.index("encoder.block.0.layer.1.DenseReluDense.wi")] == 0.5
    for variant in (prefill, decode):
        assert variant.density[variant.layers.name.index("decoder.block.0.layer.2.DenseReluDense.wi")] == 0.25
    assert np.isfinite(dse.evaluate("a100-sxm4-80gb", decode, dtype="fp16").latency).all()


def test_layers_that_no_inputs_run_are_still_refused(folder):
    with (folder / "variants" / "pruned.csv").open("a") as table:
        table.write("pruned,unstructured,0.5,encoder.block.7.layer.1.DenseReluDense.wi,256\n")
    with pytest.raises(InputError, match=r"unknown layer 'encoder.block.7.layer.1.DenseReluDense.wi'"):
        dse.load_workload(folder, phase="decode")
