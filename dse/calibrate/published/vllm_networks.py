"""The table of whole networks in vLLM of bcacdwk/vllmbench (SlideSparse, arXiv 2603.05232, Apache-2.0), as rows of networks.

Prefill: prompts of at most 1,024 tokens. Decode: 16 tokens of prompt and 256 generated ones, so 144 in the cache on average. Passes of
their own quantise the inputs of each product with weights and scale its outputs. Attention and what is between the products compute in
bf16. The host launches the kernels of prefills; decodes are CUDA graphs. Patterns that no unit lists run by windows of 2:4 over activations
that a pass expands. In int8 the dense products (cuBLASLt) write int32, the sparse ones (cuSPARSELt) bf16.
"""

from dse.calibrate.published.table import Cells, PublishedTable, RowLeftOut, device_name

PROMPT = 1024  # most tokens of a sequence in a prefill
CACHED = 16 + 256 // 2  # mean tokens of a sequence in a decode
WORKLOADS = {
    "Llama3.2-1B": "llama-3.2-1b", "Llama3.2-3B": "llama-3.2-3b", "Qwen2.5-7B": "qwen2.5-7b", "Qwen2.5-14B": "qwen2.5-14b",
    "BitNet-2B": "bitnet-2b",
}  # fmt: skip
DTYPES = {  # of the dense network, and of the pruned one
    "int8": ("int8 outputs=int32 elementwise=bf16", "int8 outputs=bf16 elementwise=bf16"),
    "fp8": ("fp8 outputs=bf16 elementwise=bf16",) * 2,
}


def _convert_row(row: Cells) -> Cells:
    if row["model"] not in WORKLOADS or row["dtype"] not in DTYPES or row["phase"] not in ("prefill", "decode"):
        raise RowLeftOut(f"no network for '{row['phase']}' of '{row['model']}' in '{row['dtype']}'")
    tokens, (dtype, pruned_dtype) = float(row["tokens"]), DTYPES[row["dtype"]]
    is_prefill, time = row["phase"] == "prefill", 1e3 * tokens / float(row["dense_tokens_per_s"])
    sequence = min(tokens, PROMPT) if is_prefill else CACHED
    return {
        "device": device_name(row["device"]), "workload": WORKLOADS[row["model"]], "pattern": row["pattern"],
        "inputs": f"phase={row['phase']} sequence={sequence:.0f} passes=separate",
        "batch": f"{tokens / sequence if is_prefill else tokens:.0f}",
        "dtype": dtype, "pruned_dtype": pruned_dtype, "label": f"vLLM {row['phase']}",
        "expanded": "none" if row["pattern"] == "2:4" else "in_memory",
        "runtime": "eager" if is_prefill else "graph",
        "dense_ms": str(time), "time_ms": str(time / float(row["speedup"])),
    }  # fmt: skip


VLLM_NETWORKS = PublishedTable(("device", "phase", "dtype", "model", "tokens", "dense_tokens_per_s", "pattern", "speedup"), _convert_row)
