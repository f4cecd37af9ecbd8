"""The table of whole networks in vLLM of bcacdwk/vllmbench (SlideSparse, arXiv 2603.05232, Apache-2.0), as rows of networks.

Prefill: prompts of at most 1,024 tokens. Decode: 16 tokens of prompt and 256 generated ones, so 144 in the cache on average. Passes of
their own quantise the inputs of each product with weights and scale its outputs. Attention and what is between the products compute in
bf16. The host launches the kernels of prefills; decodes are CUDA graphs. Patterns that no unit lists run by windows of 2:4 over activations
that a pass expands. In int8 the dense products (cuBLASLt) write int32, the sparse ones (cuSPARSELt) bf16.
In fp16 and bf16 nothing is quantised.

Tokens per second count the tokens of prompts, also in a decode (`total_num_tokens` over `elapsed_time` in the results of that repository).
A step of a decode has at most as many tokens as there are sequences, or 272 if these are fewer (`--max-num-batched-tokens` in its
throughput_benchmark.py@036cef50f64b, without splitting prompts), and a running sequence takes one of them. So prompts are admitted over
several steps, and of 512 sequences the last 15 start when the first ones end: no step has 512 sequences, and these rows are left out.
vLLM may use 80% of the memory (`--gpu-memory-utilization`); where sequences wait for it, rows are left out too.
"""

from collections.abc import Iterator

from dse.base.errors import InputError
from dse.calibrate.published.network_names import find_network
from dse.calibrate.published.table import Cells, PublishedTable, RowLeftOut, device_name, known_value

PROMPT = 1024  # most tokens of a sequence in a prefill
DECODE_PROMPT, GENERATED = 16, 256  # tokens of a sequence in a decode
CACHED = DECODE_PROMPT + GENERATED // 2  # mean tokens of a sequence in a decode
LOADED_SHARE = 0.5  # of the time of a step grows with its sequences: assumed, for the steps in which few sequences run
MEMORY_SHARE = 0.8  # of the memory that vLLM may use
MAX_SEQUENCES = 65_536  # prompts or sequences of a row that are plausible
DTYPES = {  # of the dense network, and of the pruned one
    "int8": ("int8 outputs=int32 elementwise=bf16", "int8 outputs=bf16 elementwise=bf16"),
    "fp8": ("fp8 outputs=bf16 elementwise=bf16",) * 2,
    "fp16": ("fp16",) * 2, "bf16": ("bf16",) * 2,  # nothing is quantised
}  # fmt: skip
IS_PREFILL = {"prefill": True, "decode": False}  # by phase


def _convert_row(row: Cells) -> Cells:
    workload, (dtype, pruned_dtype) = find_network(row["model"]), known_value(row, "dtype", DTYPES)
    is_prefill, tokens = known_value(row, "phase", IS_PREFILL, "phase"), int(row["tokens"])
    tokens_per_second = float(row["dense_tokens_per_s"])
    sequence = min(tokens, PROMPT) if is_prefill else CACHED
    batch = _count_prompts(tokens, sequence) if is_prefill else _check_sequences(tokens)
    time = 1e3 * (tokens if is_prefill else tokens * (DECODE_PROMPT + GENERATED) / _full_steps(tokens)) / tokens_per_second
    return {
        "device": device_name(row["device"]), "workload": workload, "pattern": row["pattern"],
        "inputs": f"phase={row['phase']} sequence={sequence} passes=separate",
        "batch": str(batch),
        "memory_share": "" if is_prefill else str(MEMORY_SHARE), "longest_sequence": "" if is_prefill else str(DECODE_PROMPT + GENERATED),
        "dtype": dtype, "pruned_dtype": pruned_dtype, "label": f"vLLM {row['phase']}",
        "expanded": "none" if row["pattern"] == "2:4" else "in_memory",
        "runtime": "eager" if is_prefill else "graph",
        "dense_ms": str(time), "time_ms": str(time / float(row["speedup"])),
    }  # fmt: skip


def _count_prompts(tokens: int, prompt: int) -> int:
    """Prompts of a prefill; raises RowLeftOut if one of them is shorter than the others, since a network runs on equal ones."""
    count = _check_sequences(tokens // max(prompt, 1))
    if tokens % prompt:
        raise RowLeftOut(f"prompts of unequal lengths ({PROMPT:,} tokens and a rest)")
    return count


def _check_sequences(count: int) -> int:
    if not 0 < count <= MAX_SEQUENCES:
        raise InputError(f"{count:,} sequences are not plausible", f"write tokens for 1 to {MAX_SEQUENCES:,} sequences", key="tokens")
    return count


def _full_steps(sequences: int) -> float:
    """How many steps with all sequences take as long as the whole decode; raises RowLeftOut if some sequences never run with the others.

    Of the time of a step, `LOADED_SHARE` grows with its sequences.
    """
    steps = list(_sequences_of_steps(sequences))
    if len(steps) > 2 * GENERATED:
        raise RowLeftOut("the last sequences of a decode start when the first ones end")
    return sum(1 - LOADED_SHARE + LOADED_SHARE * running / sequences for running in steps)


def _sequences_of_steps(sequences: int) -> Iterator[int]:
    """Sequences in each step of a decode. A step has room for one token of each running sequence, and for as many whole prompts."""
    most_tokens, waiting, admitted = max(sequences, DECODE_PROMPT + GENERATED), sequences, list[int]()  # `admitted`: in each step
    while waiting or any(admitted[1 - GENERATED :]):
        running = sum(admitted[1 - GENERATED :])
        admitted.append(min(waiting, (most_tokens - running) // DECODE_PROMPT))
        waiting -= admitted[-1]
        yield running + admitted[-1]


VLLM_NETWORKS = PublishedTable(("device", "phase", "dtype", "model", "tokens", "dense_tokens_per_s", "pattern", "speedup"), _convert_row)
