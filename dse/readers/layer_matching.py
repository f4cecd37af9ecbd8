"""Match the weights of one file to the layers of another, by name and shape."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from jaxtyping import Shaped

from dse.base.errors import InputError, ProblemCollector
from dse.networks.layers import WITH_WEIGHTS, LayerRow
from dse.readers.named_tensors import RUNS_ONCE_NOTE
from dse.readers.parsed_network import NetworkState, Operator, ParsedNetwork, Shape, WeightTensor, array_slabs

OUTPUTS_FIRST, INPUTS_FIRST = "[m, k]", "[k, m]"  # layouts of a matrix of weights


def match_network(network: ParsedNetwork, weights: ParsedNetwork) -> ParsedNetwork:
    """The layers of `network`, which gives how often each one runs, with the weights of another file; raises InputError."""
    states: list[NetworkState] = []
    unmatched, problems = set[str](), ProblemCollector()
    layout = network.architecture.weight_layout if network.architecture else OUTPUTS_FIRST
    for state in weights.states:
        with problems.collect(weights.path):
            matched, unmatched_names = match_weights(network.layers, state.weights, layout)
            states.append(replace(state, weights=matched))
            unmatched |= set(unmatched_names)
    problems.raise_if_any()
    if not any(state.weights for state in states):
        fix = f"give the network that they belong to; its layers are called '{network.layers[0].name}' and so on"
        raise InputError("no tensor has the name of a layer", fix, weights.path)
    return ParsedNetwork(
        weights.path, weights.format, network.layers, tuple(states), _merge_operators(network, weights, unmatched), weights.shared,
        network.notes + tuple(note for note in weights.notes if note != RUNS_ONCE_NOTE), network.architecture,
    )  # fmt: skip


def _merge_operators(network: ParsedNetwork, weights: ParsedNetwork, unmatched: set[str]) -> tuple[Operator, ...]:
    """The operators of the network, then the tensors of the other file that belong to none of its layers."""
    shapes = {name: tensor.shape for state in weights.states for name, tensor in state.weights.items()}
    reason = "belongs to no layer of the network"
    skipped = [Operator("tensor", name, "skipped", prod(shapes[name]), reason) for name in sorted(unmatched)]
    return (*network.operators, *(o for o in weights.operators if o.became != "layer"), *skipped)


def match_weights(
    rows: Iterable[LayerRow], weights: Mapping[str, WeightTensor], layout: str = OUTPUTS_FIRST
) -> tuple[dict[str, WeightTensor], list[str]]:
    """The weights of each layer, and the names of tensors that belong to none; raises InputError if shapes differ.

    A tensor belongs to the layer of its name, or to the only layer whose name it ends with or that ends with its name.
    `layout` is used if all matrices of the file are square; otherwise the shapes of the others determine the layout.
    """
    by_name = {row.name: row for row in rows if row.kind in WITH_WEIGHTS}
    owners = {name: _find_owner(name, by_name) for name in weights}
    layout = _layout_of_file(by_name, weights, owners) or layout
    stack_layout = _layout_of_stacks(by_name, weights, owners)
    matched, problems = {}, ProblemCollector()
    for row in by_name.values():
        tensors = [weights[name] for name, owner in owners.items() if owner == row.name]
        with problems.collect(key=row.name):
            if tensors:
                matched[row.name] = _fit_to_row(row, tensors, layout, stack_layout)
    problems.raise_if_any()
    for name in by_name:  # "fc#2" is a second use of the weights of "fc"
        if name.partition("#")[0] in matched:
            matched.setdefault(name, matched[name.partition("#")[0]])
    return matched, [name for name, owner in owners.items() if owner is None]


def _layout_of_file(rows: Mapping[str, LayerRow], weights: Mapping[str, WeightTensor], owners: Mapping[str, str | None]) -> str:
    """The layout that all matrices of a file agree on, except for square ones, which fit both; '' if they differ or are all square."""
    layouts = set()
    for name, owner in owners.items():
        if owner and len(weights[name].shape) == 2 and rows[owner].m != rows[owner].k:
            layouts.add(INPUTS_FIRST if weights[name].shape == (rows[owner].k, rows[owner].m) else OUTPUTS_FIRST)
    return layouts.pop() if len(layouts) == 1 else ""


def _layout_of_stacks(rows: Mapping[str, LayerRow], weights: Mapping[str, WeightTensor], owners: Mapping[str, str | None]) -> str:
    """The layout of the experts in stacks [experts, m, k] or [experts, k, m]: that of all stacks whose experts are not square.

    `INPUTS_FIRST` if all are square, as GPT-OSS and Llama 4 store them.
    """
    stacks = [(rows[owner], weights[name].shape) for name, owner in owners.items() if owner and _is_stack(rows[owner], weights[name])]
    layouts = {INPUTS_FIRST if shape[1:] == (row.k, row.m) else OUTPUTS_FIRST for row, shape in stacks if row.m != row.k}
    return layouts.pop() if len(layouts) == 1 else INPUTS_FIRST


def _is_stack(row: LayerRow, tensor: WeightTensor) -> bool:
    """Whether a tensor has all experts of a layer, one after the other."""
    return row.experts > 1 and len(tensor.shape) == 3 and tensor.shape[0] == row.experts


def _find_owner(name: str, rows: Mapping[str, LayerRow]) -> str | None:
    for candidate in (name, _without_expert_number(name)):
        if candidate in rows:
            return candidate
        similar = [row for row in rows if candidate.endswith(f".{row}") or row.endswith(f".{candidate}")]
        if len(similar) == 1:
            return similar[0]
    return None


def _without_expert_number(name: str) -> str:
    """'experts.w1' for 'experts.3.w1': all experts of a mixture are one layer."""
    before, _, after = name.partition(".experts.")
    return f"{before}.experts.{after.partition('.')[2]}" if after.partition(".")[0].isdigit() else name


def _fit_to_row(row: LayerRow, tensors: Sequence[WeightTensor], layout: str, stack_layout: str) -> WeightTensor:
    """The weights of one layer as [m, k]; those of the experts of a mixture are stacked."""
    m, k = int(row.m or 0), int(row.k or 0)
    if len(tensors) == 1 and _is_stack(row, tensors[0]):
        return _flatten_stack(tensors[0], (m, k), stack_layout)
    if len(tensors) == 1 and tensors[0].shape == (m * row.experts, k):
        return tensors[0]  # a file may hold the experts as one stack
    if len(tensors) not in (1, row.experts):
        if row.experts == 1:
            raise InputError(f"{len(tensors)} tensors for one layer", "give one of them")
        what = f"{len(tensors)} tensors for a layer of {row.experts:g} experts"
        raise InputError(what, "give one tensor for each expert, or one stack of all")
    fitted = [_fit_to_shape(tensor, (m, k), layout) for tensor in tensors]
    return fitted[0] if len(fitted) == 1 else _stack(fitted)


def _fit_to_shape(tensor: WeightTensor, shape: tuple[int, int], layout: str) -> WeightTensor:
    (m, k), stored_shape = shape, (tensor.shape[0], prod(tensor.shape[1:]))
    if stored_shape == (k, m) and len(tensor.shape) == 2 and (m != k or layout == INPUTS_FIRST):
        return _transpose(tensor)
    if stored_shape != shape:
        what = f"{stored_shape[0]} x {stored_shape[1]} weights for a layer of {m} x {k}"
        raise InputError(what, "give the network that they belong to")
    return tensor


def _flatten_stack(tensor: WeightTensor, shape: tuple[int, int], layout: str) -> WeightTensor:
    """The weights [experts m, k] of a stack of experts [experts, m, k] or [experts, k, m]."""
    (experts, *stored), (m, k) = tensor.shape, shape
    is_transposed = stored == [k, m] and (m != k or layout == INPUTS_FIRST)
    if not is_transposed and stored != [m, k]:
        what = f"{experts} experts of {stored[0]} x {stored[1]} weights for a layer of {m} x {k}"
        raise InputError(what, "give the network that they belong to")

    def slabs() -> Iterator[Shaped[np.ndarray, "row ..."]]:
        for slab in tensor.slabs():
            yield (slab.swapaxes(1, 2) if is_transposed else slab).reshape(-1, k)

    return WeightTensor((experts * m, k), tensor.dtype, slabs)


def _transpose(tensor: WeightTensor) -> WeightTensor:
    return WeightTensor(tensor.shape[::-1], tensor.dtype, lambda: array_slabs(np.concatenate(list(tensor.slabs())).T))


def _stack(tensors: Sequence[WeightTensor]) -> WeightTensor:
    def slabs() -> Iterator[Shaped[np.ndarray, "row ..."]]:
        for tensor in tensors:
            yield from tensor.slabs()

    shape: Shape = (sum(tensor.shape[0] for tensor in tensors), *tensors[0].shape[1:])
    return WeightTensor(shape, tensors[0].dtype, slabs)
