"""Row of a table of measured fused attention kernels, and the published tables that are converted to such rows."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from dse.base.dtype import BITS_PER_ELEMENT, storage_dtype
from dse.base.errors import InputError, Problem, did_you_mean
from dse.base.input_file import Lines, read_header, required_columns
from dse.base.strict_model import StrictModel, field_error
from dse.calibrate.published.table import Cells, PublishedTable, RowLeftOut, device_name, known_value, measured_time, split_release

CAUSAL_PHASES = ("context", "generation")  # with which `op_name` begins
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "fp8": "fp8"}
# Releases whose times of causal kernels include the write of the new keys and values: fits of the others are worse with it. The source
# states neither.
WRITING_RELEASES = (("vllm", "0.14.0"), ("vllm", "0.24.0"))


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


def _convert_row(row: Cells) -> Cells:
    """Convert a row by its `op_name`."""
    phase = row["op_name"].partition("_")[0]
    if phase not in (*CAUSAL_PHASES, "encoder"):
        raise RowLeftOut(f"no attention for '{row['op_name']}'")
    shared = _convert_shared(row, "attn_dtype" if phase == "encoder" else "kv_cache_dtype")
    return shared | (_encoder_sizes(row) if phase == "encoder" else _causal_sizes(row, phase == "generation"))


def _causal_sizes(row: Cells, decodes: bool) -> Cells:
    keys = int(row["step"]) + 1 if decodes else int(row["step"]) + int(row["isl"])
    window = row.get("window_size", "")
    sizes = {"keys": str(keys), "kv_heads": row["num_key_value_heads"], "window": "" if window in ("0", "-1") else window}
    return sizes | {"causal": "true", "writes_cache": str(split_release(row["release"]) in WRITING_RELEASES).lower()}


def _encoder_sizes(row: Cells) -> Cells:
    return {"keys": row["isl"], "kv_heads": row["num_heads"], "causal": "false"}


def _convert_shared(row: Cells, cache_column: str) -> Cells:
    dtype, cache_dtype = (known_value(row, column, DTYPES) for column in ("attn_dtype", cache_column))
    return {
        "device": device_name(row["gpu"]), "kernel": row["kernel_source"], "release": row["release"],
        "dtype": dtype, "cache_dtype": cache_dtype, "sequences": row["batch_size"], "queries": row["isl"],
        "heads": row["num_heads"], "head_size": row["head_dim"], "time_ms": measured_time(row, "latency_ms"),
        "source": row.get("source") or f"ai-dynamo/aiconfigurator, {row['release']}",
    }  # fmt: skip


_COMMON = ("gpu", "op_name", "kernel_source", "latency_ms", "release", "batch_size", "isl", "num_heads", "head_dim", "attn_dtype")
CAUSAL_TABLE = PublishedTable((*_COMMON, "num_key_value_heads", "kv_cache_dtype", "step"), _convert_row)
ENCODER_TABLE = PublishedTable(_COMMON, _convert_row)


def find_attention_table(header: Sequence[str]) -> PublishedTable | None:
    """The published table of fused attention that has these columns; None if there is none."""
    columns = set(header)
    if "gemm_type" in columns:  # modules of sparse attention, projections included
        return None
    return next((table for table in (CAUSAL_TABLE, ENCODER_TABLE) if columns.issuperset(table.columns)), None)


def check_causal_columns(path: Path, header: Sequence[str], lines: Lines) -> None:
    """Raise InputError with the columns that the causal rows of a published table of attention need and it does not have."""
    missing = [name for name in CAUSAL_TABLE.columns if name not in header]
    place = header.index("op_name")
    causal = [line for line, cells in lines if "".join(cells[place : place + 1]).strip().startswith(CAUSAL_PHASES)]
    if missing and causal:
        what = f"is missing, which causal attention needs (line {causal[0]})"
        raise InputError.from_problems(Problem(f"column '{name}' {what}", "add it", path, 1) for name in missing)


def is_attention_table(path: Path) -> bool:
    """Whether a file has the columns of a table of fused attention; raises InputError if it cannot be read."""
    header = read_header(path)
    return set(header).issuperset(required_columns(AttentionMeasurement)) or find_attention_table(header) is not None
