"""Small sound networks in the formats of tables, arrays and configurations, which a fuzzer damages."""

import io
import json
import warnings
import zipfile
from random import Random
from typing import Any

import numpy as np
import scipy.sparse

from tests.fuzz import damage

Files = dict[str, bytes]  # by path within the folder of a case
DTYPES = (
    "float32",
    "float16",
    "float64",
    "int8",
    "uint8",
    "int64",
    "bool",
    "complex64",
    "S3",
    "U2",
    "datetime64[s]",
    "object",
    "f4,i4",
    ">f4",
)
SHAPES = ((8, 12), (96,), (), (0, 12), (12, 0), (2, 2, 2, 3, 4), (1, 96), (96, 1), (2, 3, 4, 4), (1, 1, 1, 1, 1, 96))
ODD_INDICES = (-1, 2**31 - 1, 2**31, -(2**31), 100, 12)
WEIGHTS = {
    "fc1.weight": np.where(np.arange(96).reshape(8, 12) % 3, np.arange(96).reshape(8, 12), 0).astype(np.float32),
    "conv.weight": np.where(np.arange(144).reshape(4, 4, 3, 3) % 2, 1.5, 0).astype(np.float32),
    "fc1.bias": np.ones(8, np.float32),
}
CONFIGS: tuple[dict[str, Any], ...] = (
    {"model_type": "bert", "vocab_size": 100, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
     "max_position_embeddings": 512, "type_vocab_size": 2},
    {"model_type": "mixtral", "vocab_size": 100, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2,
     "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    {"model_type": "llama", "vocab_size": 100, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
     "head_dim": 4, "tie_word_embeddings": True},
    {"model_type": "gpt2", "vocab_size": 100, "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 512},
    {"model_type": "opt", "vocab_size": 100, "hidden_size": 8, "ffn_dim": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
     "max_position_embeddings": 512, "word_embed_proj_dim": 8},
    {"model_type": "resnet", "num_channels": 3, "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2], "layer_type": "bottleneck",
     "image_size": 32, "id2label": {"0": "a", "1": "b"}},
    {"model_type": "swin", "image_size": 32, "patch_size": 4, "num_channels": 3, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 4],
     "window_size": 4, "mlp_ratio": 4.0},
    {"model_type": "vit", "image_size": 32, "patch_size": 4, "num_channels": 3, "hidden_size": 8, "intermediate_size": 16,
     "num_hidden_layers": 2, "num_attention_heads": 2},
    {"model_type": "convnext", "image_size": 32, "num_channels": 3, "patch_size": 4, "hidden_sizes": [8, 16], "depths": [1, 1]},
    {"model_type": "efficientnet", "image_size": 32, "num_channels": 3, "width_coefficient": 1.0, "depth_coefficient": 1.0},
    {"model_type": "mobilenet_v1", "image_size": 32, "num_channels": 3, "depth_multiplier": 1.0, "min_depth": 8},
    {"model_type": "mlp_mixer", "image_size": 32, "patch_size": 4, "hidden_size": 8, "num_hidden_layers": 2, "tokens_mlp_dim": 8,
     "channels_mlp_dim": 16},
    {"model_type": "gemma2", "vocab_size": 100, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
     "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    {"model_type": "deepseek_v32", "vocab_size": 100, "hidden_size": 8, "intermediate_size": 16, "moe_intermediate_size": 4,
     "num_hidden_layers": 2, "num_attention_heads": 2, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
     "first_k_dense_replace": 1, "q_lora_rank": 4, "kv_lora_rank": 4, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2, "v_head_dim": 4,
     "num_nextn_predict_layers": 1, "index_n_heads": 2, "index_head_dim": 4, "index_topk": 8},
    {"model_type": "t5", "vocab_size": 100, "d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 2},
    {"model_type": "whisper", "vocab_size": 100, "num_mel_bins": 4, "d_model": 8, "encoder_layers": 2, "encoder_attention_heads": 2,
     "encoder_ffn_dim": 16, "decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 16, "max_source_positions": 8},
    {"model_type": "clip", "projection_dim": 4,
     "text_config": {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "dropout": 0.0},
     "vision_config": {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32,
                       "patch_size": 8}},
    {"model_type": "llama4",
     "text_config": {"vocab_size": 100, "hidden_size": 8, "intermediate_size": 16, "intermediate_size_mlp": 16, "num_hidden_layers": 4,
                     "num_attention_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 1, "attention_chunk_size": 8},
     "vision_config": {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 32,
                       "patch_size": 8}},
)  # fmt: skip
TABLE = """name,kind,m,k,n,count,groups,input_elements,output_elements,experts,active,nnz,density
fc1,gemm,64,128,16,2,,,,,,4096,
conv,conv,32,144,49,,,784,,,,,0.25
scores,matmul,16,8,16,4,,,,,,,
norm,elementwise,,,,,,512,512,,,,
moe,gemm,64,32,4,,,,,8,2,1000,
"""
WORKLOAD: Files = {
    "net/workload.yaml": b"""name: net
task: image classification
metric: {name: top-1 accuracy, unit: "%", direction: higher}
other_metrics: [{name: loss, direction: lower}]
sources: [made for a test]
published: {parameters: {value: 25000, source: nowhere}, macs: {value: 1.0e+6, source: nowhere}}
""",
    "net/layers.csv": b"""name,kind,m,k,n,count,groups,input_elements,output_elements,prunable,experts,active,activation_density
fc1,gemm,64,128,16,2,,,,true,,,0.5
conv,conv,32,144,49,,2,784,,true,,,
scores,matmul,16,8,16,4,,,,,,,
norm,elementwise,,,,,,512,512,,,,
moe,gemm,64,32,4,,,,,true,8,2,
""",
    "net/variants/magnitude.csv": b"""method,pattern,sparsity,layer,nnz,row_mean,row_std,column_mean,column_std,activation_density
magnitude,unstructured,0.5,fc1,4096,64,2.5,32,3,0.5
magnitude,unstructured,0.5,conv,2304,,,,,
magnitude,2:4,0.5,fc1,4096,,,,,
magnitude,block:4x4,0.75,fc1,2048,,,,,
""",
    "net/accuracy.csv": b"""method,pattern,sparsity,value,dense_value,source,kind,metric,densities
magnitude,unstructured,0.5,75.1,76.0,a paper,published,top-1 accuracy,
magnitude,2:4,0.5,75.5,76.0,a paper,published,,traced
random,unstructured,0.9,70,76,a paper,measured,loss,uniform
""",
    "net/statistics/stored.csv": b"""method,pattern,sparsity,layer,stored_as,elements
magnitude,unstructured,0.5,fc1,2:4,4096
magnitude,unstructured,0.5,fc1,block:4x4,8192
magnitude,unstructured,0.5,conv,dense,4608
""",
}
MADE: Files = {
    "net/workload.yaml": b"""name: made
task: language modelling
metric: {name: perplexity, direction: lower}
sources: [made for a test]
network:
  model_type: mixtral
  vocab_size: 100
  hidden_size: 8
  intermediate_size: 16
  num_hidden_layers: 2
  num_attention_heads: 4
  num_key_value_heads: 2
  num_local_experts: 4
  num_experts_per_tok: 2
inputs: {sequence: 64, phase: prefill, attention: fused, logits: all}
""",
    "net/accuracy.csv": b"method,pattern,sparsity,value,dense_value,source,kind,densities\nsparsegpt,2:4,0.5,6.1,5.5,paper,published,uniform\n",
}
CONNECTIONS = b"source,target,weight\na,c,1\nb,c,-0.5\na,d,2\nc,e,1\nd,e,1\n"


def yaml_table() -> Files:
    rows = "".join(f"  - {{name: fc{n}, kind: gemm, m: 16, k: 8, n: 4, nnz: {n * 10}}}\n" for n in range(4))
    return {"net.yaml": f"layers:\n{rows}".encode()}


def smtx(mask: np.ndarray) -> bytes:
    matrix = scipy.sparse.csr_array(mask)
    lines = (", ".join(map(str, (*matrix.shape, matrix.nnz))), " ".join(map(str, matrix.indptr)), " ".join(map(str, matrix.indices)))
    return ("\n".join(lines) + "\n").encode()


def pruned_states() -> Files:
    masks = {"fc1": WEIGHTS["fc1.weight"], "fc2": np.eye(4, 8)}
    return {f"net/magnitude/{sparsity}/{name}.smtx": smtx(mask) for sparsity in (0.5, 0.9) for name, mask in masks.items()}


def _array(random: Random) -> np.ndarray:
    """Mostly a plain matrix; else of any number type and shape, with numbers that are none."""
    if random.random() < 0.4:
        return WEIGHTS["fc1.weight"]
    shape, dtype = random.choice(SHAPES), random.choice(DTYPES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dtype == "f4,i4":
            return np.zeros(shape, dtype)
        array = np.resize(np.arange(96) % 3, shape).astype(dtype)
    if dtype.startswith("float") and array.size and random.random() < 0.3:
        array.flat[-1] = random.choice((np.nan, np.inf, -np.inf))
    return np.asfortranarray(array) if random.random() < 0.2 else array


def npy(array: np.ndarray, random: Random) -> bytes:
    chosen = array if random.random() < 0.5 else _array(random)
    buffer = io.BytesIO()
    np.save(buffer, chosen, allow_pickle=True)
    return buffer.getvalue()


def npz(random: Random) -> bytes:
    arrays = {name: array if random.random() < 0.8 else _array(random) for name, array in WEIGHTS.items()}
    if random.random() < 0.3:
        arrays = {random.choice(damage.WORDS[3:14]).replace("\x00", "").replace("\ud800", "") or "x": array for array in arrays.values()}
    method = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    return damage.zipped([(f"{name}.npy", _saved(array), method) for name, array in arrays.items()])


def _saved(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def scipy_npz(random: Random) -> bytes:
    """A matrix of scipy.sparse, of which one array may be replaced."""
    form = random.choice(("csr", "csc", "coo", "bsr", "dia"))
    buffer = io.BytesIO()
    scipy.sparse.save_npz(buffer, scipy.sparse.coo_array(WEIGHTS["fc1.weight"]).asformat(form))
    with np.load(io.BytesIO(buffer.getvalue())) as held:
        arrays = {name: held[name] for name in held.files}
    name = random.choice(list(arrays))
    action = random.randrange(7)
    if action == 0:
        shape = [random.choice((*ODD_INDICES, 8, 2**40, 10**12)) for _ in range(random.choice((1, 2, 2, 2, 3)))]
        arrays["shape"] = np.array(shape)
    elif action == 1 and arrays[name].ndim and arrays[name].dtype.kind in "iuf":
        changed = arrays[name].astype(np.int64)
        changed.flat[random.randrange(changed.size)] = random.choice(ODD_INDICES)
        arrays[name] = changed
    elif action == 2:
        del arrays[name]
    elif action == 3:
        arrays[name] = _array(random)
    elif action == 4:
        arrays["format"] = np.array(random.choice((b"csr", b"csc", b"coo", b"bsr", b"dia", b"lil", b"", "csr", 3)))
    elif action == 5 and arrays[name].ndim:
        arrays[name] = arrays[name][: random.randrange(3)]
    return damage.zipped([(f"{name}.npy", _saved(array), zipfile.ZIP_DEFLATED) for name, array in arrays.items()])


def safetensors(names: tuple[str, ...] = tuple(WEIGHTS)) -> bytes:
    from safetensors.numpy import save

    return save({name: WEIGHTS[name] for name in names})


def shards(random: Random) -> tuple[str, Files]:
    index = {"metadata": {"total_size": 1}, "weight_map": {name: f"{number}.safetensors" for number, name in enumerate(WEIGHTS)}}
    files = {f"net/{number}.safetensors": safetensors((name,)) for number, name in enumerate(WEIGHTS)}
    return "net", {"net/model.safetensors.index.json": json.dumps(index).encode(), **files}


def config_and_weights(random: Random) -> tuple[str, Files]:
    """config.json, and weights of one of its layers beside it."""
    from safetensors.numpy import save

    stored = {"lm_head.weight": np.eye(100, 8, dtype=np.float32), "model.layers.0.self_attn.q_proj.weight": np.eye(16, 8, dtype=np.float32)}
    return "net", {"net/config.json": json.dumps(CONFIGS[2]).encode(), "net/model.safetensors": save(stored)}


def config(random: Random) -> tuple[str, Files]:
    config = dict(random.choice(CONFIGS))
    for _ in range(random.choice((0, 0, 1, 2))):  # sizes far beyond any network, all of them legal by themselves
        key = random.choice(list(config))
        if isinstance(config[key], int):
            config[key] = random.choice((1, 3, 8, 1000, 10_000, 10**6, 10**9))
        elif isinstance(config[key], list):
            config[key] = [random.choice((1, 100, 10_000, 10**6))] * random.choice((1, 2, 5, 100))
    return "config.json", {"config.json": json.dumps(config).encode()}
