"""Copies of transposed activations around pruned layers: which ones there are, their bytes, and what they are compared with."""

from dataclasses import replace

import numpy as np
import pytest

import dse
from dse.base.errors import InputError
from dse.model.compaction import keep_needed_transposes
from dse.sparsity import parse
from dse.workload import Variant

W8A8 = "int8 outputs=int32 elementwise=bf16"
AT = "encoder.layer.0"


def prune(workload: dse.Workload, *suffixes: str) -> Variant:
    dense = workload.dense
    is_pruned = np.array([name.endswith(suffixes) for name in dense.layers.name]) & dense.layers.prunable
    return replace(dense, method="hypothetical", pattern=parse("2:4"), density=np.where(is_pruned, 0.5, 1.0))


def bert(**inputs) -> dse.Workload:
    return dse.load_workload("bert-base", sequence=16, passes="separate", sparse_layout="transposed", **inputs)


def bytes_by_layer(variant: Variant, dtype: str) -> dict[str, float]:
    layers = dse.evaluate("a100-sxm4-80gb", variant, dtype=dtype)
    return dict(zip(layers.layer.values, layers.bytes.values, strict=True))


def test_copies_by_hand():
    """BERT-base, 16 tokens of fp16: 768 or 3072 wide, read once and written once."""
    moved = bytes_by_layer(prune(bert(), f"{AT}.intermediate.dense", f"{AT}.attention.self.key"), "fp16")
    assert {name: value for name, value in moved.items() if "transpose" in name and value} == {
        "embeddings.LayerNorm.transpose_inputs": 2 * 2 * 16 * 768,
        f"{AT}.attention.self.key.transpose_outputs": 2 * 2 * 16 * 768,
        f"{AT}.attention.output.LayerNorm.transpose_inputs": 2 * 2 * 16 * 768,
        f"{AT}.intermediate.dense.transpose_outputs": 2 * 2 * 16 * 3072,
    }


def test_the_inputs_of_several_pruned_layers_are_copied_once():
    """Queries, keys and values read the same tensor."""
    one, all_three = (
        [name for name, moved in bytes_by_layer(prune(bert(), *roles), "fp16").items() if "transpose_inputs" in name and moved]
        for roles in (("self.key",), ("self.key", "self.query", "self.value"))
    )
    assert one == all_three


@pytest.mark.parametrize("dtype", ["fp16", W8A8])
def test_dense_networks_copy_nothing(dtype):
    same = dse.load_workload("bert-base", sequence=16, passes="separate")
    assert sum(bytes_by_layer(bert().dense, dtype).values()) == sum(bytes_by_layer(same.dense, dtype).values())


def test_a_pass_that_quantises_copies_at_the_same_time():
    roles = ("intermediate.dense", "output.dense")
    same = dse.load_workload("bert-base", sequence=16, passes="separate")
    assert sum(bytes_by_layer(prune(bert(), *roles), W8A8).values()) == sum(bytes_by_layer(prune(same, *roles), W8A8).values())


def test_without_a_graph_every_pass_copies_once_a_layer_is_pruned():
    pruned = prune(bert(), "intermediate.dense")
    unknown = replace(pruned, layers=replace(pruned.layers, reads=(None, *pruned.layers.reads[1:])))
    assert keep_needed_transposes(unknown).layers.transposes.sum() == pruned.layers.transposes.sum()
    dense = replace(unknown, density=np.ones(len(unknown.density)))
    assert not keep_needed_transposes(dense).layers.transposes.any()


def test_copies_are_never_faster_and_may_cost_what_a_pattern_gains():
    speedups = {}
    for layout in ("same", "transposed"):
        workload = dse.load_workload("bert-base", sequence=512, passes="separate", sparse_layout=layout)
        pruned = prune(workload, "intermediate.dense", "output.dense")
        dense_time, pruned_time = (
            float(dse.evaluate("a100-sxm4-80gb", each, batch=64, dtype="fp16").latency.sum()) for each in (workload.dense, pruned)
        )
        speedups[layout] = dense_time / pruned_time
    assert speedups["transposed"] < 1 < speedups["same"]


def test_fused_passes_cannot_copy():
    with pytest.raises(
        InputError, match="'sparse_layout: transposed' copies activations in passes, which are fused; add 'passes: separate'"
    ):
        dse.load_workload("bert-base", sparse_layout="transposed")
