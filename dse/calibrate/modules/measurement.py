"""Row of a table of measured modules of sparse attention, and the published tables that are converted to such rows.

What the tables of ai-dynamo/aiconfigurator@095f58a51c4c hold, by its collectors (`collect_mla_module.py` and `collect_msa_module.py` in
collector/vllm): `num_heads` are the query heads of one device, `isl` the new tokens of a sequence, `step` the tokens in its cache before (a
prompt) or, of a decode step, all of them with the new one (DSA) or without it (MSA). Weights are constants, so all keys have the same
score. Prompts of DSA are launched by the host kernel by kernel; everything else is a CUDA graph. Prompts of one token run the kernels of
decode steps; those of MSA are counted as such.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from dse.base.errors import did_you_mean
from dse.base.input_file import read_header, required_columns
from dse.base.strict_model import StrictModel, field_error
from dse.calibrate.modules.shapes import MODULE_SHAPES, GroupedShape
from dse.calibrate.published.table import Cells, PublishedTable, device_name, known_value, measured_time

ModulePhase = Literal["prefill", "decode"]
WeightDtype = Literal["bf16", "fp8_block", "nvfp4"]
CacheDtype = Literal["bf16", "fp8"]
NETWORKS = {
    "deepseek-ai/DeepSeek-V3.2": "deepseek-v3.2", "zai-org/GLM-5": "glm-5", "zai-org/GLM-5-FP8": "glm-5", "nvidia/GLM-5-NVFP4": "glm-5",
    "MiniMaxAI/MiniMax-M3": "minimax-m3",
}  # fmt: skip
WEIGHT_DTYPES = {"bfloat16": "bf16", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}
CACHE_DTYPES = {"bfloat16": "bf16", "fp8": "fp8"}
MAX_FLASHINFER_HEADS = 16  # vLLM 0.22 does not name its kernel: with a bf16 cache and at most so many heads FlashInfer, else FlashMLA
FLASHINFER, FLASHMLA = "FLASHINFER_MLA_SPARSE", "FLASHMLA_SPARSE"
# Prompts of more tokens than a grid may have blocks in its second and third dimension (CUDA C++ Programming Guide, compute capabilities)
# are a kernel of their own: with FlashInfer most of them take no longer than the module without its attention.
MAX_GRID = 65_535


class ModuleMeasurement(StrictModel):
    """Time of the attention of one layer with its projections; the fields are columns of the table."""

    device: str = Field(min_length=1, examples=["b200-sxm-180gb"])
    kernel: str = Field(min_length=1, examples=["FLASHMLA_SPARSE"], description="that attends to the chosen keys")
    release: str = ""
    network: str = Field(examples=["deepseek-v3.2"], description=f"whose sizes the module has: {', '.join(MODULE_SHAPES)}")
    phase: ModulePhase = Field(examples=["decode"])
    weight_dtype: WeightDtype = Field(examples=["bf16"], description="of the projections")
    cache_dtype: CacheDtype = Field(examples=["fp8"], description="of keys and values")
    heads: int = Field(gt=0, le=10**4, examples=["16"], description="query heads of the device")
    sequences: int = Field(gt=0, le=10**6, examples=["8"])
    queries: int = Field(gt=0, le=10**8, examples=["1"], description="new tokens of each sequence")
    keys: int = Field(gt=0, le=10**8, examples=["4096"], description="tokens of each sequence, new ones included")
    time_ms: float = Field(gt=0, le=1e9, examples=["0.25"])
    source: str = Field(min_length=1, examples=["ai-dynamo/aiconfigurator"])

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.network not in MODULE_SHAPES:
            raise field_error(f"unknown network '{self.network}'", did_you_mean(self.network, MODULE_SHAPES))
        if self.queries > self.keys:
            raise field_error(f"{self.queries} queries of {self.keys} keys", "write keys >= queries")
        if self.phase == "decode" and self.queries > 1:
            raise field_error(f"{self.queries} queries of a sequence in decode", "write 1, or phase prefill")
        return self


def _convert_row(row: Cells) -> Cells:
    network, weight_dtype = known_value(row, "model", NETWORKS, "sizes"), known_value(row, "gemm_type", WEIGHT_DTYPES)
    is_step = "_generation_" in row["op_name"]
    decodes = is_step or (row["isl"] == "1" and isinstance(MODULE_SHAPES[network], GroupedShape))
    return {
        "device": device_name(row["gpu"]), "kernel": _kernel_name(row), "release": row["release"], "network": network,
        "phase": "decode" if decodes else "prefill", "weight_dtype": weight_dtype,
        "cache_dtype": known_value(row, "kv_cache_dtype", CACHE_DTYPES), "heads": row["num_heads"], "sequences": row["batch_size"],
        "queries": row["isl"], "keys": str(int(row["step"]) + _tokens_not_in_step(row, network, is_step)),
        "time_ms": measured_time(row, "latency_ms"),
        "source": row.get("source") or f"ai-dynamo/aiconfigurator, {row['release']}",
    }  # fmt: skip


def _tokens_not_in_step(row: Cells, network: str, is_step: bool) -> int:
    if is_step:
        return 1 if isinstance(MODULE_SHAPES[network], GroupedShape) else 0
    return int(row["isl"])


def _kernel_name(row: Cells) -> str:
    """The kernel that a row names; for releases that name none, that which later ones choose for these heads and this cache."""
    name = row["kernel_source"]
    if name == "default":
        name = FLASHINFER if row["kv_cache_dtype"] == "bfloat16" and int(row["num_heads"]) <= MAX_FLASHINFER_HEADS else FLASHMLA
    is_large = name == FLASHINFER and int(row["batch_size"]) * int(row["isl"]) > MAX_GRID
    return f"{name} above {MAX_GRID:,} tokens" if is_large else name


MODULE_TABLE = PublishedTable(
    (
        "gpu", "op_name", "kernel_source", "model", "gemm_type", "kv_cache_dtype", "num_heads", "batch_size", "isl", "step", "latency_ms",
        "release",
    ),
    _convert_row,
)  # fmt: skip


def find_module_table(header: Sequence[str]) -> PublishedTable | None:
    """The published table of modules if a table has its columns, else None."""
    return MODULE_TABLE if set(header).issuperset(MODULE_TABLE.columns) else None


def is_module_table(path: Path) -> bool:
    """Whether a file has the columns of a table of modules; raises InputError if it cannot be read."""
    header = read_header(path)
    return set(header).issuperset(required_columns(ModuleMeasurement)) or find_module_table(header) is not None
