"""Tables of ai-dynamo/aiconfigurator (Apache-2.0): kernels of serving frameworks on data centre GPUs, one release a row.

Its dense products C[m, n] have m tokens and n outputs: A of `Measurement` are the weights, so m and n are swapped.
"""

import re

from dse.base.errors import InputError
from dse.calibrate.published.table import Cells, PublishedTable, device_name, known_value, measured_time, split_release

# Weight-only kernels compute in bf16. The scales of their weights are not counted (one of 16 bit for 128 values: 3% of the bytes of int4).
DTYPES = {
    "bfloat16": "bf16", "float16": "fp16",
    "fp8": "fp8 outputs=bf16", "fp8_static": "fp8 outputs=bf16",
    "fp8_block": "fp8 activations=fp8_block outputs=bf16",  # weights share a scale in each 128 x 128: 8.002 bits
    "nvfp4": "fp4 weights=nvfp4 activations=nvfp4 outputs=bf16",
    "int8_wo": "bf16 weights=int8", "int4_wo": "bf16 weights=int4",
}  # fmt: skip
# Layers that the collectors run one after another, each with weights of its own, by framework; vLLM's has one in formats with scales, and
# TensorRT-LLM's has at most five, as many as exceed the cache (ai-dynamo/aiconfigurator, collector/*/collect_gemm.py: vllm@00e9bded2f42,
# sglang@2ec2c274ae38, trtllm@000959092f86).
WEIGHT_COPIES, SINGLE_WEIGHTS = {"vllm": 6, "sglang": 6, "trtllm": 5, "tensorrtllm": 5}, ("fp8_block", "nvfp4")

# Columns that these tables do not have, and what they may say of a dense product.
DENSE_CELLS = {"pattern": r"|dense", "density": r"|1(\.0*)?", "sparsity": r"|0(\.0*)?"}  # regular expressions


def _convert_gemm(row: Cells) -> Cells:
    _check_dense(row)
    dtype, time_ms = known_value(row, "gemm_dtype", DTYPES), measured_time(row, "latency_ms")
    return {
        "device": device_name(row["gpu"]), "kernel": row["kernel_source"], "release": row["release"], "pattern": "dense",
        "dtype": dtype, "m": row["n"], "k": row["k"], "n": row["m"], "time_ms": time_ms,
        "weight_copies": str(_count_weight_copies(row)),
        "power_w": row.get("power_W", ""), "power_limit_w": row.get("power_limit_W", ""),
        "source": row.get("source") or f"ai-dynamo/aiconfigurator, {row['release']}",
    }  # fmt: skip


def _check_dense(row: Cells) -> None:
    """Raise InputError if a further column says that a matrix is sparse."""
    for column, dense in DENSE_CELLS.items():
        if not re.fullmatch(dense, cell := row.get(column, ""), re.IGNORECASE):
            what = f"'{cell}' in a table of dense products"
            raise InputError(what, "write sparse kernels into a table in the columns of 'dse measure'", key=column)


def _count_weight_copies(row: Cells) -> int:
    framework, _ = split_release(row["release"])
    has_single = framework == "vllm" and row["gemm_dtype"] in SINGLE_WEIGHTS
    return 1 if has_single else WEIGHT_COPIES.get(framework, 1)


_KERNEL = ("gpu", "op_name", "kernel_source", "latency_ms", "release")
_SEQUENCE = ("batch_size", "isl", "num_heads")
_ATTENTION = "fused attention is not a product of two matrices"  # `dse.calibrate.attention.measurement` reads it
AICONFIGURATOR: dict[str, PublishedTable] = {
    "gemm": PublishedTable((*_KERNEL, "gemm_dtype", "m", "n", "k"), _convert_gemm),
    "attention": PublishedTable((*_KERNEL, *_SEQUENCE, "attn_dtype", "kv_cache_dtype", "step"), reason=_ATTENTION),
    "encoder_attention": PublishedTable((*_KERNEL, *_SEQUENCE, "attn_dtype"), reason=_ATTENTION),
    "sparse_attention": PublishedTable(
        (*_KERNEL, *_SEQUENCE, "gemm_type", "kv_cache_dtype", "step"), reason="modules of sparse attention are not fitted"
    ),
    "experts": PublishedTable(
        (*_KERNEL, "moe_dtype", "num_tokens", "num_experts", "topk"), reason="mixture-of-experts layers are not fitted"
    ),
    "collectives": PublishedTable((*_KERNEL, "num_gpus", "message_size"), reason="transfers between GPUs are not fitted"),
}
