"""Layer tables: CSV or YAML with the columns of layers.csv and, where known, the nonzeros (or the density) of each layer."""

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from dse.base.csv_table import read_rows
from dse.base.errors import InputError, Problem
from dse.base.strict_model import StrictModel, field_error
from dse.base.yaml_document import load_document
from dse.networks.layers import WITH_WEIGHTS, LayerRow
from dse.readers.parsed_network import NetworkState, ParsedNetwork, understood


class TableRow(LayerRow):
    nnz: float | None = Field(None, ge=0, allow_inf_nan=False)
    density: float | None = Field(None, ge=0, le=1)

    @model_validator(mode="after")
    def _check_nonzeros(self) -> Self:
        if self.nnz is not None and self.density is not None:
            raise field_error("both nnz and density are given", "give one of them")
        if self.kind not in WITH_WEIGHTS and (self.nnz is not None or self.density is not None):
            raise field_error(f"a {self.kind} has no weights", "leave nnz and density out")
        if self.nnz is not None and self.nnz > self.size:
            raise field_error(f"{self.nnz:g} nonzeros in {self.size:g} weights", "write at most m x k")
        return self

    @property
    def size(self) -> float:
        return (self.m or 0) * (self.k or 0) * self.experts

    @property
    def nonzeros(self) -> float | None:
        return round(self.density * self.size) if self.density is not None else self.nnz

    def layer(self) -> LayerRow:
        return LayerRow(**self.model_dump(exclude={"nnz", "density"}))


class LayerTable(StrictModel):
    """A YAML file of layers."""

    layers: tuple[TableRow, ...] = Field(min_length=1, examples=["[{name: fc, kind: gemm, m: 10, k: 64, n: 1}]"])


def source(path: Path) -> ParsedNetwork:
    """The layers of a table, in its order; raises InputError."""
    rows = (
        [row for _, row in read_rows(path, TableRow)] if path.suffix.lower() == ".csv" else load_document(path).validate(LayerTable).layers
    )
    names = [row.name for row in rows]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError.from_problems([Problem(f"layer '{name}' is given twice", "rename one", path) for name in twice])
    known = {row.name: row.nonzeros for row in rows if row.nonzeros is not None}
    layers = tuple(row.layer() for row in rows)
    return ParsedNetwork(path, "layer table", layers, (NetworkState({}, known),), understood(layers))
