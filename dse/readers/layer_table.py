"""Read tables of layers, in CSV or YAML: the columns of layers.csv and, where known, the nonzeros (or density) of each layer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from dse.base.errors import InputError, Problem
from dse.base.input_file import read_rows
from dse.base.strict_model import StrictModel, field_error
from dse.base.yaml_document import load_document
from dse.networks.layers import WITH_WEIGHTS, LayerRow
from dse.readers.parsed_network import NetworkState, ParsedNetwork, operators_of_layers


class SparseLayerRow(LayerRow):
    """A layer and, where known, its nonzero weights."""

    nnz: float | None = Field(None, ge=0, allow_inf_nan=False)
    density: float | None = Field(None, ge=0, le=1)

    @model_validator(mode="after")
    def _check_nonzeros(self) -> Self:
        if self.nnz is not None and self.density is not None:
            raise field_error("both nnz and density are given", "give one of them")
        if self.kind not in WITH_WEIGHTS and (self.nnz is not None or self.density is not None):
            raise field_error(f"a {self.kind} has no weights", "leave nnz and density out")
        if self.nnz is not None and self.nnz > self.weights:
            raise field_error(f"{self.nnz:g} nonzeros in {self.weights:g} weights", "write at most m x k")
        return self

    @property
    def weights(self) -> float:
        """Weight elements, zeros included, of all experts."""
        return (self.m or 0) * (self.k or 0) * self.experts

    @property
    def nonzeros(self) -> float | None:
        return round(self.density * self.weights) if self.density is not None else self.nnz

    def without_nonzeros(self) -> LayerRow:
        return LayerRow(**self.model_dump(exclude={"nnz", "density"}))


class LayerTable(StrictModel):
    """A YAML file of layers."""

    layers: tuple[SparseLayerRow, ...] = Field(min_length=1, examples=["[{name: fc, kind: gemm, m: 10, k: 64, n: 1}]"])


def read_layer_table(path: Path) -> ParsedNetwork:
    """Read the layers of a table, in its order; raises InputError."""
    if path.suffix.lower() == ".csv":
        numbered = read_rows(path, SparseLayerRow)
        lines, rows = [line for line, _ in numbered], [row for _, row in numbered]
    else:
        document = load_document(path)
        rows = document.validate(LayerTable).layers
        lines = [document.locate(("layers", number, "name"))[1] for number in range(len(rows))]
    _check_names(path, [row.name for row in rows], lines)
    nonzeros = {row.name: row.nonzeros for row in rows if row.nonzeros is not None}
    layers = tuple(row.without_nonzeros() for row in rows)
    return ParsedNetwork(path, "layer table", layers, (NetworkState({}, nonzeros),), operators_of_layers(layers))


def _check_names(path: Path, names: Sequence[str], lines: Sequence[int | None]) -> None:
    """Raise InputError for each name that an earlier layer has."""
    first_lines, problems = dict[str, int | None](), list[Problem]()
    for name, line in zip(names, lines, strict=True):
        if name in first_lines:
            problems.append(Problem(f"layer '{name}' is given twice", f"rename one (the first is on line {first_lines[name]})", path, line))
        first_lines.setdefault(name, line)
    if problems:
        raise InputError.from_problems(problems)
