"""Measured modules of sparse attention: rows of published tables, and the exact work of their parts."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.base.errors import InputError
from dse.calibrate.modules.fit import ModuleModel, fit_module
from dse.calibrate.modules.launches import ModuleKey, ModuleLaunches, ModuleRates
from dse.calibrate.modules.measurement import is_module_table
from dse.calibrate.modules.module_set import ModuleSet, load_modules
from dse.calibrate.modules.parameters import MODULE_PARAMETERS, MODULE_PRIOR
from dse.calibrate.modules.shapes import DEEPSEEK_V32, GLM_5, MINIMAX_M3, MODULE_SHAPES
from dse.calibrate.modules.time import dense_features, module_features
from dse.calibrate.validate.comparison import compute_errors
from dse.calibrate.validate.crossover import Crossover, _last_crossing, find_crossovers, format_crossovers
from dse.calibrate.validate.modules import ModuleKernel, compare_modules, fit_kernels, predict_left_out
from dse.cli.entry import main

MODULES = Path(__file__).parents[3] / "dse" / "calibrate" / "measured" / "modules"
RATES = ModuleRates({"bf16": 2.25e15, "fp8": 4.5e15, "fp4": 9e15}, 8e12, 126e6, 148)
KERNEL = ("FLASHMLA_SPARSE", "vllm/0.24.0", "decode")
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
    assert modules.left_out == (f"{path}:6: no sizes for 'other/model'",)
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
    path.write_text("\n".join([HEADER, fast, a100, *[DSA_ROW.replace("512,128", "512,256")] * 98]) + "\n")
    lacking, above = load_modules(path).left_out
    assert lacking == "'a100-sxm4-80gb' has no unit that computes in fp8"
    assert above.startswith(f"{path}:2: time_ms: the rate is above the peak of 'b200-sxm-180gb', by a factor of ")
    path.write_text("\n".join([HEADER, fast, fast, *[DSA_ROW.replace("512,128", "512,256")] * 98]) + "\n")
    with pytest.raises(InputError, match=r"modules.csv:2: .*above the peak") as caught:
        load_modules(path)
    assert [problem.line for problem in caught.value.problems] == [2, 3]  # repeats of one launch


@pytest.mark.parametrize(("name", "launches"), [("sparse_attention", 10_952), ("block_sparse_attention", 8000)])
def test_every_published_row_is_read(name, launches):
    modules = load_modules(MODULES / f"{name}.csv.gz")
    assert modules.left_out == ()
    assert sum(map(len, modules.launches.values())) == launches  # repeated launches count once
    assert all((each.compute_time < each.time).all() for each in modules.launches.values())  # bytes may come from the cache


def grid(network, phase="decode", kernel="FLASHMLA_SPARSE", seed=0, count=240):
    """Launches of random sizes whose times are those of `VALUES`."""
    rng = np.random.default_rng(seed)
    heads, sequences, length = 2.0 ** rng.integers(3, 8, count), 2.0 ** rng.integers(0, 9, count), 2.0 ** rng.integers(1, 15, count)
    sequences = np.minimum(sequences, 2**16 / length) if phase == "prefill" else sequences
    key = ModuleKey("b200-sxm-180gb", kernel, "1", phase, network, "bf16", "bf16")
    queries = np.ones(count) if phase == "decode" else length
    launches = ModuleLaunches(key, RATES, heads, sequences, queries, length, np.ones(count))
    return replace(launches, time=ModuleModel(False, true_theta()).predict_times([launches]))


def true_theta(**changes):
    values = ModuleModel(False, MODULE_PRIOR).values | VALUES | changes
    return np.array([p.to_theta(values[p.name]) for p in MODULE_PARAMETERS])


VALUES = {"bandwidth": 0.6, "attention": 0.6, "score": 0.2, "projection bf16": 0.7, "launch glm-5 bf16": 3e-5, "token": 1e-8}


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_fit_recovers_the_times_and_the_rates_of_synthetic_launches(phase):
    launches = grid("glm-5", phase)
    model = fit_module([launches])
    assert not model.attends_to_all_slots
    assert model.predict_times([launches]) == pytest.approx(launches.time, rel=0.05)
    assert model.values["launch glm-5 bf16"] == pytest.approx(3e-5, rel=0.1)
    assert model.values["projection bf16"] == pytest.approx(0.7, rel=0.15)


@pytest.mark.parametrize("network", sorted(MODULE_SHAPES))
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_times_grow_with_sequences_and_length_and_are_above_the_speed_of_light_of_the_units(network, phase):
    launches = grid(network, phase, seed=1)
    model = ModuleModel(False, MODULE_PRIOR)
    time = model.predict_times([launches])
    assert (time > launches.compute_time).all()
    more = replace(launches, sequences=2 * launches.sequences), replace(launches, keys=launches.keys + 128)
    for larger in more:
        assert (model.predict_times([larger]) > time * (1 - 1e-9)).all()


def test_a_kernel_that_attends_to_all_slots_takes_the_time_of_full_lists():
    short, full = launches_of("glm-5", queries=64, keys=64), launches_of("glm-5", queries=64, keys=64 + 2048)
    attention = [module_features(launches, True).attention for launches in (short, full)]
    assert attention[0] == attention[1]
    assert module_features(short, False).attention < attention[0] / 50


def test_dense_attention_has_the_work_of_all_keys_and_no_indexer():
    step = launches_of("deepseek-v3.2", heads=128, keys=20_480, phase="decode")
    sparse, dense = module_features(step, False), dense_features(step)
    assert dense.attention == 10 * sparse.attention  # 20,480 keys instead of 2048
    assert dense.gathered == 10 * sparse.gathered
    assert (dense.scores, dense.index_keys, dense.selected_from) == (0, 0, 0)
    assert dense.projection < sparse.projection
    prompt = launches_of("deepseek-v3.2", heads=128, queries=4096, keys=4096)
    pairs = 4096 * 4097 / 2
    assert dense_features(prompt).attention * 2.25e15 == pytest.approx(2 * 128 * (128 + 64 + 128) * pairs)


def test_each_shape_is_predicted_by_a_fit_without_it_and_crossovers_of_exact_predictions_agree():
    kernel = fit_kernels([ModuleSet("synthetic", {(each := grid("glm-5")).key: each})])
    left_out = predict_left_out(kernel)
    comparisons = compare_modules(kernel, left_out)
    assert {comparison.split for comparison in comparisons} == {"shapes"}  # one device
    assert compute_errors(comparisons, "calibrated")["mape"] < 0.05
    assert len(set(left_out[0].group[[shape == each.shapes[0] for shape in each.shapes]])) == 1  # a repeated shape is left out at once
    exact = left_out[0]._replace(time=each.time)
    crossovers = find_crossovers(kernel, [exact])
    assert crossovers
    assert all(crossover.ratio == 1 for crossover in crossovers)
    assert f"{len(crossovers)} " in format_crossovers(crossovers)


def test_a_crossover_by_hand():
    length = np.log(np.array([512.0, 1024, 2048, 4096]))
    assert np.exp(_last_crossing(length, np.array([0.2, 0.1, -0.1, -0.3]))) == pytest.approx(1024 * 2**0.5)
    assert _last_crossing(length, np.array([-0.1, 0.1, -0.1, 0.3])) is None  # not faster at the greatest length
    assert _last_crossing(length, np.array([-0.1, -0.1, -0.2, -0.3])) is None  # never slower
    assert _last_crossing(np.log(np.array([1.0, 8, 64])), np.array([0.1, 0.1, -0.1])) is None  # lengths too far apart
    crossover = Crossover(launches_of("glm-5").key, 8, 1, 0, 2000.0, 1000.0, True)
    assert crossover.ratio == 2
    assert crossover._replace(predicted=None).ratio == np.inf


@pytest.mark.parametrize("count", [1, 3])
def test_kernels_with_few_shapes_are_listed_and_not_fitted(tmp_path, capsys, count):
    path = tmp_path / "modules.csv"
    rows = [DSA_ROW.replace("512,128", f"512,{128 * n}") for n in range(count)]
    path.write_text("\n".join([HEADER, *rows, rows[0].replace("fp8_block", "bfloat16")]) + "\n")  # dtypes share a fit
    assert main(["validate", "--data", str(path), "-o", str(tmp_path)]) == 2
    expected = f"left out: modules: b200-sxm-180gb FLASHMLA_SPARSE vllm/0.24.0 prefill: {count} shapes, fewer than 20"
    assert expected in capsys.readouterr().err


def test_a_kernel_of_another_device_has_a_dtype_in_common():
    def kernel(device, dtype):
        key = replace((launches := grid("glm-5", count=40)).key, device=device, weight_dtype=dtype)
        return ModuleKernel("synthetic", [replace(launches, key=key)], ModuleModel(False, true_theta()))

    kernels = [kernel("b200-sxm-180gb", "bf16"), kernel("gb200", "nvfp4"), kernel("gb300", "bf16")]
    by_device = compare_modules(kernels, predict_left_out(kernels))
    assert {comparison.device for comparison in by_device if comparison.split == "devices"} == {"b200-sxm-180gb", "gb300"}


def test_the_command_prints_errors_and_crossovers(tmp_path, capsys):
    launches = grid("glm-5", count=60)
    rows = [
        f"b200-sxm-180gb,dsa_generation_module,FLASHMLA_SPARSE,zai-org/GLM-5,bfloat16,bfloat16,{h},{s},1,{k},{1e3 * time!r},1"
        for (h, s, _, k), time in zip(launches.shapes, launches.time.tolist(), strict=True)
    ]
    path = tmp_path / "modules.csv"
    path.write_text("\n".join([HEADER, *rows, rows[0].replace("zai-org/GLM-5", "other")]) + "\n")
    assert main(["validate", "--data", str(path), "--brief"]) == 0
    text = capsys.readouterr().out
    assert "b200-sxm-180gb FLASHMLA_SPARSE 1 decode glm-5" in text
    assert f"not predicted: modules: {path}:{len(rows) + 2}: no sizes for 'other'" in text
    assert main(["validate", "--data", str(path), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert len(content["points"]) == len(set(launches.shapes))
    assert isinstance(content["crossovers"], list)


def test_errors_of_a_published_kernel_are_as_stated():
    modules = load_modules(MODULES / "sparse_attention.csv.gz")
    of_kernel = {key: each for key, each in modules.launches.items() if (key.kernel, key.release, key.phase) == KERNEL}
    (kernel,) = kernels = fit_kernels([replace(modules, launches=of_kernel)])
    errors = compute_errors(compare_modules(kernels, predict_left_out(kernels)), "calibrated")
    assert sum(map(len, kernel.groups)) == 1064
    assert 0.02 < errors["mape"] < 0.06  # docs/reference/validation-silicon.md
    assert abs(errors["bias"]) < 0.01
    assert 0.85 < errors["coverage"] < 0.95
