"""How much of each layer's input is not zero, counted from recorded activations.

A recording is a file of arrays, each named after the layer whose input it holds (a forward hook in any framework writes one).
Zeros behind a ReLU, or scores that softmax sends below the tolerance, are seen here and nowhere in the weights.
"""

from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path

from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.networks.layers import LayerRow
from dse.readers import weight_files
from dse.readers.parsed_network import WeightTensor
from dse.sparsity.statistics import nonzero_mask


def densities(path: Path, rows: Iterable[LayerRow], tolerance: float) -> dict[str, float]:
    """Share of nonzero elements of each recorded input, by layer; raises InputError."""
    known = {row.name for row in rows}
    problems, found = ProblemCollector(), {}
    for name, recorded in _read(path).items():
        with problems.collect(path, key=name):
            if name not in known:
                raise InputError(f"no layer is called '{name}'", did_you_mean(name, known))
            found[name] = _density(recorded, tolerance)
    problems.raise_if_any()
    return found


def _read(path: Path) -> Mapping[str, WeightTensor]:
    if not path.is_file() or path.suffix.lower() not in weight_files.READERS:
        raise InputError("no recording of activations", f"give a file of arrays that ends in {', '.join(weight_files.READERS)}", path)
    return weight_files.READERS[path.suffix.lower()](path).weights


def _density(recorded: WeightTensor, tolerance: float) -> float:
    if not (recorded.shape and (size := prod(recorded.shape))):
        raise InputError("the array is empty", "record at least one sample")
    kept = sum(int(nonzero_mask(slab.reshape(len(slab), -1), tolerance).sum()) for slab in recorded.slabs())
    return kept / size
