"""Measured modules of sparse attention: rows of published tables, and the exact work of their parts."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.base.errors import InputError
from dse.calibrate.exclusions import summarize_reasons
from dse.calibrate.modules.launches import ModuleKey, ModuleLaunches, ModuleRates
from dse.calibrate.modules.measurement import is_module_table
from dse.calibrate.modules.module_set import load_modules
from dse.calibrate.modules.shapes import DEEPSEEK_V32, GLM_5, MINIMAX_M3, MODULE_SHAPES

MODULES = Path(__file__).parents[2] / "dse" / "calibrate" / "measured" / "modules"
RATES = ModuleRates({"bf16": 2.25e15, "fp8": 4.5e15, "fp4": 9e15}, 8e12, 126e6, 148)
HEADER = "gpu,op_name,kernel_source,model,kv_cache_dtype,gemm_type,num_heads,batch_size,isl,step,latency_ms,release"
DSA_ROW = "b200-sxm-180gb,dsa_context_module,FLASHMLA_SPARSE,zai-org/GLM-5,bfloat16,fp8_block,64,4,512,128,2.5,vllm/0.24.0"


def launches_of(network, heads=16, sequences=1, queries=1, keys=1, weights="bf16", cache="bf16", phase="prefill"):
    """One launch on a B200."""
    key = ModuleKey("b200-sxm-180gb", "kernel", "", phase, network, weights, cache)
    return ModuleLaunches(key, RATES, *(np.array([float(value)]) for value in (heads, sequences, queries, keys, np.nan)))


def attended_by_brute_force(network, queries, keys):
    """Keys of every query, one after the other: all up to `chosen` (DSA), or all of 15 blocks and the query's own up to itself (MSA)."""
    shape, total = MODULE_SHAPES[network], 0
    for position in range(keys - queries, keys):
        if network == "minimax-m3":
            blocks = [min(shape.block, position + 1 - start) for start in range(0, position + 1, shape.block)]
            total += blocks[-1] + sum(sorted(blocks[:-1], reverse=True)[: shape.chosen_blocks - 1])
        else:
            total += min(position + 1, shape.chosen)
    return total


@given(st.sampled_from(sorted(MODULE_SHAPES)), st.integers(1, 5000), st.integers(1, 400), st.integers(1, 8))
def test_pairs_of_queries_and_keys_equal_those_counted_one_by_one(network, keys, queries, sequences):
    queries = min(queries, keys)
    launches = launches_of(network, sequences=sequences, queries=queries, keys=keys)
    assert launches.scored_keys == sequences * sum(range(keys - queries + 1, keys + 1))
    assert launches.attended_keys == sequences * attended_by_brute_force(network, queries, keys)


@pytest.mark.parametrize("network", sorted(MODULE_SHAPES))
def test_a_prompt_attends_to_as_many_keys_as_its_tokens_one_by_one(network):
    prompt = launches_of(network, queries=4500, keys=4500)
    steps = [launches_of(network, keys=keys, phase="decode") for keys in range(1, 4501)]
    for work in ("attended_keys", "scored_keys", "projection_flops", "score_flops", "attention_flops"):
        assert getattr(prompt, work) == pytest.approx(sum(getattr(step, work) for step in steps), rel=1e-12)


def test_projections_have_the_published_parameters():
    """Attention of one layer of DeepSeek-V3: 187.1 M parameters (arXiv 2412.19437, config.json), and the indexer of V3.2: 13.96 M."""
    launches = launches_of("deepseek-v3.2", heads=128)
    attention = 7168 * (1536 + 576) + 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168
    indexer = 1536 * 64 * 128 + 7168 * 128 + 7168 * 64
    assert launches.projection_weights + launches.absorbed_weights == attention + indexer
    grouped = launches_of("minimax-m3", heads=64)
    assert grouped.projection_weights == 6144 * ((64 + 2 * 4) * 128 + (4 + 1) * 128) + 64 * 128 * 6144


def test_work_of_a_decode_step_by_hand():
    step = launches_of("deepseek-v3.2", heads=128, sequences=2, keys=10_000, cache="fp8", phase="decode")
    assert step.attention_flops == 2 * 2 * 128 * (576 + 512) * 2048
    assert step.score_flops == 2 * 2 * 64 * 128 * 10_000
    cache = 2 * (2048 * 576 + 10_000 * 132)
    assert step.compulsory_bytes == 2 * (step.projection_weights + step.absorbed_weights) + 2 * 2 * 2 * 7168 + cache
    assert step.sol == step.compulsory_bytes / 8e12


def test_a_device_with_few_heads_has_one_head_of_keys_and_all_index_heads_of_a_latent():
    assert launches_of("minimax-m3", heads=4).kv_heads == 1
    assert launches_of("minimax-m3", heads=64).index_heads == 4
    assert launches_of("glm-5", heads=4).index_heads == 32
    assert (DEEPSEEK_V32.entry, GLM_5.chosen, MINIMAX_M3.chosen, MINIMAX_M3.group) == (576, 2048, 2048, 16)


def test_rows_of_the_published_tables_are_converted(tmp_path):
    decode = "b200-sxm-180gb,dsa_generation_module,default,deepseek-ai/DeepSeek-V3.2,fp8,nvfp4,8,2,1,4096,0.2,vllm/0.22.0"
    blocks = "l40s,msa_generation_module,MiniMaxM3SparseTritonImpl,MiniMaxAI/MiniMax-M3,bfloat16,bfloat16,16,2,1,4095,0.2,vllm/0.24.0"
    unknown = DSA_ROW.replace("zai-org/GLM-5", "other/model")
    path = tmp_path / "modules.csv"
    path.write_text("\n".join([HEADER, DSA_ROW, DSA_ROW.replace(",2.5,", ",3.5,"), decode, blocks, unknown]) + "\n")
    assert is_module_table(path)
    modules = load_modules(path)
    assert modules.left_out == ("no sizes or dtype for 'other/model'",)
    prompt, step, grouped = modules.launches.values()
    assert str(prompt.key) == "b200-sxm-180gb FLASHMLA_SPARSE vllm/0.24.0 prefill glm-5 fp8_block"
    assert (prompt.shapes, prompt.time.tolist()) == ([(64, 4, 512, 640)], [0.003])  # the mean of two
    assert (step.key.kernel, step.key.precision, step.shapes) == ("FLASHMLA_SPARSE", "nvfp4 cache=fp8", [(8, 2, 1, 4096)])
    assert (grouped.key.phase, grouped.shapes) == ("decode", [(16, 2, 1, 4096)])


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (DSA_ROW.replace("64,4,512", "0,4,512"), "heads"),
        (DSA_ROW.replace("64,4,512", "x,4,512"), "heads"),
        (DSA_ROW.replace("512,128", "512,-128"), "512 queries of 384 keys"),
        (DSA_ROW.replace("512,128", "512,nan"), "not a row of this table"),
    ],
)
def test_bad_rows_are_reported_with_their_line(tmp_path, row, problem):
    path = tmp_path / "modules.csv"
    path.write_text(f"{HEADER}\n{row}\n")
    with pytest.raises(InputError, match=rf"modules.csv:2: .*{problem}"):
        load_modules(path)


def test_rows_above_a_peak_and_of_devices_without_a_dtype_are_left_out(tmp_path):
    path = tmp_path / "modules.csv"
    fast, a100 = DSA_ROW.replace(",2.5,", ",0.001,"), DSA_ROW.replace("b200-sxm-180gb", "a100-sxm4-80gb")
    path.write_text("\n".join([HEADER, fast, a100]) + "\n")
    reasons = summarize_reasons(load_modules(path).left_out)
    assert any(reason.endswith("above the peak") for reason in reasons)
    assert "'a100-sxm4-80gb' has no unit that computes in fp8" in reasons


@pytest.mark.parametrize(("name", "launches"), [("sparse_attention", 10_952), ("block_sparse_attention", 8000)])
def test_every_published_row_is_read(name, launches):
    modules = load_modules(MODULES / f"{name}.csv.gz")
    assert modules.left_out == ()
    assert sum(map(len, modules.launches.values())) == launches  # repeated launches count once
    assert all((each.compute_time < each.time).all() for each in modules.launches.values())  # bytes may come from the cache
