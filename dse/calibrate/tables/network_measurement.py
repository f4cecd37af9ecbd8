"""Row of a table of measured whole networks, and the published tables that are converted to such rows."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dse.base.dtype import OperandDtypes, parse_dtype
from dse.base.errors import ProblemCollector
from dse.base.input_file import parse_rows, read_cells, read_header, required_columns
from dse.base.name_value import parse_pairs
from dse.base.strict_model import StrictModel, field_error, validation_errors
from dse.calibrate.published.read import convert_rows
from dse.calibrate.published.vllm_networks import VLLM_NETWORKS
from dse.calibrate.tables.measurement import check_density
from dse.schema.unit_run import Expansion
from dse.sparsity.grammar import PatternField

NumberedRows = list[tuple[int, "NetworkRow"]]


def _check_regular_expression(text: str) -> str:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise field_error(f"'{text}' is not a regular expression: {error}", "write one as in '.*mlp.*'") from error
    return text


def _check_inputs(text: str) -> str:
    with validation_errors():
        parse_pairs(text.split(), "phase=decode sequence=4096")
    return text


def _check_dtype(text: str) -> str:
    OperandDtypes.model_validate(text)
    return text


DtypeText = Annotated[str, AfterValidator(_check_dtype)]


class NetworkRow(StrictModel):
    """Latencies of a network, dense and with some layers pruned to a pattern. The fields are the columns of the table."""

    device: str = Field(min_length=1, examples=["a100-sxm4-80gb"])
    workload: str = Field(min_length=1, examples=["deit-b"])
    inputs: Annotated[str, AfterValidator(_check_inputs)] = Field(
        "", description="what the network runs on, as 'phase=decode sequence=4096'; default: the inputs of its description"
    )
    layers: Annotated[str, AfterValidator(_check_regular_expression)] = Field(
        ".*", description="regular expression for the names of the prunable layers that are pruned"
    )
    batch: int = Field(gt=0, examples=["256"])
    dtype: DtypeText = Field(examples=["fp16"])
    pruned_dtype: DtypeText | None = Field(None, description="dtype of the pruned network; default: that of the dense one")
    pattern: PatternField = Field(examples=["2:4"])
    density: float | None = Field(None, gt=0, le=1, allow_inf_nan=False)
    expanded: Expansion = Field("none", description="how units run patterns that they do not list, by windows of their own")
    sparse_layout: Literal["same", "transposed"] = Field(
        "same", description="transposed: separate passes copy the inputs and the outputs of every pruned layer"
    )
    runtime: Literal["eager", "graph"] = Field(
        "graph", description="eager: the host launches every kernel, so that the network takes at least its time"
    )
    memory_share: float | None = Field(
        None, gt=0, le=1, description="share of the memory that the software may use; rows whose network takes more are left out"
    )
    longest_sequence: int | None = Field(None, gt=0, description="tokens of a sequence at its end, for that; default: those of the inputs")
    time_ms: float = Field(gt=0, allow_inf_nan=False, examples=["42"])
    dense_ms: float = Field(gt=0, allow_inf_nan=False, examples=["60"])
    label: str = Field("", description="name of the row's group in reports; default: the workload")
    source: str = Field(min_length=1)

    @model_validator(mode="after")
    def _check_density(self) -> Self:
        check_density(self.pattern, self.density)
        return self

    @property
    def stored_density(self) -> float:
        """Share of the weights of each pruned layer that are stored, as stated or set by the pattern."""
        return float(self.density if self.density is not None else self.pattern.density or 1.0)

    @property
    def dtypes(self) -> tuple[OperandDtypes, OperandDtypes]:
        """The dtypes of the dense network and of the pruned one."""
        return parse_dtype(self.dtype), parse_dtype(self.pruned_dtype or self.dtype)

    @property
    def named_inputs(self) -> dict[str, str | int]:
        """What the network runs on, numbers as such."""
        pairs = parse_pairs(self.inputs.split())
        named: dict[str, str | int] = {name: int(value) if value.isdecimal() else value for name, value in pairs.items()}
        return named if self.sparse_layout == "same" else named | {"sparse_layout": self.sparse_layout}

    @property
    def tokens(self) -> int:
        """Tokens that a run computes: samples times `sequence`, or samples alone in a decode or without an input `sequence`."""
        inputs = self.named_inputs
        sequence = inputs.get("sequence") if inputs.get("phase") != "decode" else None
        return self.batch * (sequence if isinstance(sequence, int) else 1)


def is_network_table(path: Path) -> bool:
    """Whether a table is of whole networks: it has a column `workload`, or the columns of a published one."""
    columns = set(read_header(path))
    return "workload" in columns or columns.issuperset(VLLM_NETWORKS.columns)


def read_network_rows(path: Path, problems: ProblemCollector) -> tuple[NumberedRows, list[str]]:
    """The rows of a table with their line numbers, and the reason of each row left out; errors of rows are collected."""
    header, lines = read_cells(path, required_columns(NetworkRow))
    if "workload" in header:
        return parse_rows(path, header, lines, NetworkRow, problems), []
    return convert_rows(path, header, lines, VLLM_NETWORKS, NetworkRow, problems)
