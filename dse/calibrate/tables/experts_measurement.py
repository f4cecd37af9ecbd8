"""Row of a table of measured mixtures of experts, and the published table that is converted to such rows.

A measurement is of all experts of one layer: their gated units, the product of the two branches, and the projection back.
"""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from dse.base.dtype import OperandDtypes, parse_dtype
from dse.base.errors import ProblemCollector
from dse.base.input_file import parse_rows, read_cells, read_header, required_columns
from dse.base.strict_model import StrictModel, field_error
from dse.calibrate.published.aiconfigurator import DTYPES
from dse.calibrate.published.read import convert_rows
from dse.calibrate.published.table import Cells, PublishedTable, RowLeftOut, device_name, known_value, measured_time
from dse.calibrate.tables.network_measurement import DtypeText

NumberedRows = list[tuple[int, "ExpertsMeasurement"]]  # with the line of each


class ExpertsMeasurement(StrictModel):
    """Time of the experts of one layer; the fields are columns of the table."""

    device: str = Field(min_length=1, examples=["b200-sxm-180gb"])
    kernel: str = Field(min_length=1, examples=["vllm_fused_moe"])
    release: str = ""
    dtype: DtypeText = Field(examples=["bf16"], description="in which the products are computed, with those of operands stored in others")
    tokens: int = Field(gt=0, le=10**8, examples=["128"])
    hidden: int = Field(gt=0, le=10**7, examples=["2048"], description="elements of a token")
    inner: int = Field(gt=0, le=10**7, examples=["768"], description="hidden width of an expert")
    experts: int = Field(gt=0, le=10**6, examples=["128"])
    active: int = Field(gt=0, le=10**6, examples=["8"], description="experts that a token uses")
    time_ms: float = Field(gt=0, le=1e9, examples=["0.25"])
    source: str = Field(min_length=1, examples=["ai-dynamo/aiconfigurator"])

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        if self.active > self.experts:
            raise field_error(f"a token cannot use {self.active} of {self.experts} experts", "write active <= experts")
        return self

    @property
    def dtypes(self) -> OperandDtypes:
        """The dtypes of the operands."""
        return parse_dtype(self.dtype)


def _convert_row(row: Cells) -> Cells:
    if row["moe_ep_size"] != "1":
        raise RowLeftOut("experts spread over several devices, of which the load of each is not stated")
    inner, rest = divmod(int(row["inter_size"]), int(row["moe_tp_size"]))
    if rest:
        raise RowLeftOut("experts that cannot be divided among the devices")
    return {
        "device": device_name(row["gpu"]), "kernel": row["kernel_source"], "release": row["release"],
        "dtype": known_value(row, "moe_dtype", DTYPES), "tokens": row["num_tokens"], "hidden": row["hidden_size"], "inner": str(inner),
        "experts": row["num_experts"], "active": row["topk"], "time_ms": measured_time(row, "latency_ms"),
        "source": row.get("source") or f"ai-dynamo/aiconfigurator, {row['release']}",
    }  # fmt: skip


EXPERTS_TABLE = PublishedTable(
    (
        "gpu", "kernel_source", "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size",
        "latency_ms", "release",
    ),
    _convert_row,
)  # fmt: skip


def is_experts_table(path: Path) -> bool:
    """Whether a file has the columns of a table of experts; raises InputError if it cannot be read."""
    columns = set(read_header(path))
    return columns.issuperset(required_columns(ExpertsMeasurement)) or columns.issuperset(EXPERTS_TABLE.columns)


def read_experts_rows(path: Path, problems: ProblemCollector) -> tuple[NumberedRows, list[str]]:
    """The rows of a table with their line numbers, and the reason of each row left out; errors of rows are collected."""
    header, lines = read_cells(path, required_columns(ExpertsMeasurement))
    if set(header).issuperset(EXPERTS_TABLE.columns):
        return convert_rows(path, header, lines, EXPERTS_TABLE, ExpertsMeasurement, problems)
    return parse_rows(path, header, lines, ExpertsMeasurement, problems), []
