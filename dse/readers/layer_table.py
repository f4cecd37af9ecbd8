"""Read tables of layers, in CSV or YAML: the columns of layers.csv and, where known, the nonzeros (or density) of each layer."""

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
        rows = [row for _, row in read_rows(path, SparseLayerRow)]
    else:
        rows = load_document(path).validate(LayerTable).layers
    names = [row.name for row in rows]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InputError.from_problems(Problem(f"layer '{name}' is given twice", "rename one", path) for name in repeated)
    nonzeros = {row.name: row.nonzeros for row in rows if row.nonzeros is not None}
    layers = tuple(row.without_nonzeros() for row in rows)
    return ParsedNetwork(path, "layer table", layers, (NetworkState({}, nonzeros),), operators_of_layers(layers))
