"""Masks and arrays, a file each: one network state a folder, `METHOD/SPARSITY/LAYER.smtx` where there are several."""

from collections.abc import Callable, Mapping
from pathlib import Path

from dse.errors import BadInput, Collector, Problem
from dse.network.layers import LayerRow
from dse.readers import arrays, smtx, tensors
from dse.readers.source import Source, State, Weights

READERS: dict[str, Callable[[Path], Mapping[str, Weights]]] = {
    ".smtx": lambda path: {path.stem: smtx.weights(path)},
    ".npz": arrays.weights,
    ".npy": arrays.weights,
}


def source(path: Path) -> Source:
    """Every mask in a file or below a folder; raises BadInput with what is wrong in any of them."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix in READERS)
    folders: dict[Path, dict[str, Weights]] = {}
    problems = Collector()
    for file in files:
        with problems.at():
            folders.setdefault(file.parent, {}).update(READERS[file.suffix](file))
    problems.raise_all()
    if path.is_file():
        return tensors.source(path, path.suffix[1:], folders[path.parent])
    parts = {folder: tensors.source(folder, "folder of masks", weights) for folder, weights in folders.items()}
    states = tuple(_state(path, folder, part, len(parts)) for folder, part in parts.items())
    layers = _common(path, parts)
    most = max(parts.values(), key=lambda part: len(part.layers))
    return Source(path, "folder of masks", layers, states, most.operators, notes=most.notes)


def _state(top: Path, folder: Path, part: Source, states: int) -> State:
    """Named by its folders: 'magnitude_pruning/0.5'."""
    weights = part.states[0].weights
    try:
        sparsity = float(folder.resolve().name)
    except ValueError:
        return State(weights, method=folder.name if states > 1 else None)
    if not 0 <= sparsity <= 1:
        raise BadInput([Problem(f"the folder's name, {folder.name}, is no sparsity", "rename it to a number from 0 to 1", folder)])
    return State(weights, method=folder.resolve().parent.name, sparsity=sparsity)


def _common(path: Path, parts: Mapping[Path, Source]) -> tuple[LayerRow, ...]:
    """The layers of all states, which must be of one network."""
    found: dict[str, tuple[LayerRow, Path]] = {}
    problems = Collector()
    for folder, part in parts.items():
        for row in part.layers:
            known, where = found.setdefault(row.name, (row, folder))
            if (known.m, known.k) != (row.m, row.k):
                what = f"layer '{row.name}' is {row.m:g} x {row.k:g}, but {known.m:g} x {known.k:g} in {where.relative_to(path)}"
                problems.add(Problem(what, "trace one network at a time", folder))
    problems.raise_all()
    order = [row.name for row in max(parts.values(), key=lambda part: len(part.layers)).layers]
    return tuple(found[name][0] for name in dict.fromkeys([*order, *found]))
