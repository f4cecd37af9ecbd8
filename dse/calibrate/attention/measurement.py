"""Row of a table of measured fused attention kernels, and the published tables that are converted to such rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from dse.base.dtype import BITS_PER_ELEMENT, storage_dtype
from dse.base.errors import did_you_mean
from dse.base.input_file import read_header, required_columns
from dse.base.strict_model import StrictModel, field_error
from dse.calibrate.published.table import Cells, PublishedTable, device_name, known_value, measured_time

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "fp8": "fp8"}
# Releases whose times of causal kernels include the write of the new keys and values: fits of the others are worse with it. The source
# states neither.
WRITING_RELEASES = ("vllm/0.14.0", "vllm/0.24.0")


class AttentionMeasurement(StrictModel):
    """Time of softmax(Q K^T) V in one kernel; the fields are columns of the table."""

    device: str = Field(min_length=1, examples=["a100-sxm4-80gb"])
    kernel: str = Field(min_length=1, examples=["flash_attn"])
    release: str = ""
    dtype: str = Field(examples=["bf16"], description="of queries and outputs")
    cache_dtype: str = Field("", description="of keys and values; default: as queries")
    sequences: int = Field(gt=0, le=10**6, examples=["8"])
    queries: int = Field(gt=0, le=10**8, examples=["1"], description="of each sequence")
    keys: int = Field(gt=0, le=10**8, examples=["4096"], description="of each sequence, new ones included")
    heads: int = Field(gt=0, le=10**5, examples=["32"])
    kv_heads: int = Field(gt=0, le=10**5, examples=["8"], description="heads of keys and values")
    head_size: int = Field(gt=0, le=10**5, examples=["128"])
    window: int | None = Field(None, gt=0, le=10**8, description="keys that a query attends to")
    causal: bool = Field(examples=["true"])
    writes_cache: bool = Field(False, description="whether the time includes the write of the new keys and values")
    time_ms: float = Field(gt=0, le=1e9, examples=["0.25"])
    source: str = Field(min_length=1, examples=["ai-dynamo/aiconfigurator"])

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.heads % self.kv_heads:
            raise field_error(f"{self.heads} heads cannot share {self.kv_heads} evenly", "write a kv_heads that divides heads")
        if self.causal and self.queries > self.keys:
            raise field_error(f"{self.queries} causal queries of {self.keys} keys", "write keys >= queries")
        if self.window is not None and not self.causal:
            raise field_error("a window of an attention that is not causal", "leave it out")
        for name in (self.dtype, self.cache_dtype or self.dtype):
            if storage_dtype(name) not in BITS_PER_ELEMENT:
                raise field_error(f"unknown dtype '{name}'", did_you_mean(name, BITS_PER_ELEMENT))
        return self


def _convert_causal(row: Cells) -> Cells:
    decodes = row["op_name"].startswith("generation")
    keys = int(row["step"]) + 1 if decodes else int(row["step"]) + int(row["isl"])
    window = row.get("window_size", "")
    sizes = {"keys": str(keys), "kv_heads": row["num_key_value_heads"], "window": "" if window in ("0", "-1") else window}
    shared = _convert_shared(row, "kv_cache_dtype")
    return shared | sizes | {"causal": "true", "writes_cache": str(row["release"] in WRITING_RELEASES).lower()}


def _convert_encoder(row: Cells) -> Cells:
    sizes = {"keys": row["isl"], "kv_heads": row["num_heads"], "causal": "false"}
    return _convert_shared(row, "attn_dtype") | sizes


def _convert_shared(row: Cells, cache_column: str) -> Cells:
    dtype, cache_dtype = (known_value(row, column, DTYPES) for column in ("attn_dtype", cache_column))
    return {
        "device": device_name(row["gpu"]), "kernel": row["kernel_source"], "release": row["release"],
        "dtype": dtype, "cache_dtype": cache_dtype, "sequences": row["batch_size"], "queries": row["isl"],
        "heads": row["num_heads"], "head_size": row["head_dim"], "time_ms": measured_time(row, "latency_ms"),
        "source": row.get("source") or f"ai-dynamo/aiconfigurator, {row['release']}",
    }  # fmt: skip


_COMMON = ("gpu", "op_name", "kernel_source", "latency_ms", "release", "batch_size", "isl", "num_heads", "head_dim", "attn_dtype")
CAUSAL_TABLE = PublishedTable((*_COMMON, "num_key_value_heads", "kv_cache_dtype", "step"), _convert_causal)
ENCODER_TABLE = PublishedTable(_COMMON, _convert_encoder)


def find_attention_table(header: Sequence[str]) -> PublishedTable | None:
    """The published table of fused attention that has these columns; None if there is none."""
    columns = set(header)
    if "gemm_type" in columns:  # modules of sparse attention, projections included
        return None
    return next((table for table in (CAUSAL_TABLE, ENCODER_TABLE) if columns.issuperset(table.columns)), None)


def is_attention_table(path: Path) -> bool:
    """Whether a file has the columns of a table of fused attention; raises InputError if it cannot be read."""
    header = read_header(path)
    return set(header).issuperset(required_columns(AttentionMeasurement)) or find_attention_table(header) is not None
