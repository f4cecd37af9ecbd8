"""The kinds of figures of a sweep, what each shows and what it needs.

The sweep schema (`plots`), `dse plot --kind`, the documentation and `dse.plot.FIGURES` all take the kinds from here. Only the
standard library is imported, because `dse --help` lists the kinds.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

FigureKind = Literal["sparsity_roofline", "speedup", "axis", "pareto", "roofline", "layers", "capacity", "efficiency", "inputs"]
ImageFormat = Literal["png", "svg", "pdf"]
IMAGE_FORMATS: tuple[ImageFormat, ...] = get_args(ImageFormat)
FIGURE_KINDS: tuple[FigureKind, ...] = get_args(FigureKind)

SHOWS: dict[FigureKind, str] = {
    "sparsity_roofline": "accuracy against speedup, a curve for each pruning method and pattern",
    "speedup": "speedup against sparsity, a curve for each pattern",
    "axis": "a result against a swept axis, a curve for each variant",
    "pareto": "Pareto fronts of two results over all points",
    "roofline": "performance against operational intensity, a marker for each layer",
    "layers": "speedup of each layer, a column for each variant",
    "capacity": "speedup at each on-chip capacity, relative to that at the largest",
    "efficiency": "speedup against the ratio of sparse to dense kernel efficiency",
    "inputs": "gain, or a result, against a number that the networks run on, as the length of the context",
}
FREE_AXES: tuple[FigureKind, ...] = ("axis", "pareto", "inputs")  # figures whose x and y may be chosen
EVALUATED_AGAIN: tuple[FigureKind, ...] = ("roofline", "layers", "efficiency")  # from the descriptions, for one design
OF_POINTS: tuple[FigureKind, ...] = ("pareto", "axis")  # figures of single points: of a front, or of the best results
MAX_LAYERS_VARIANTS = 200
NEEDS: dict[FigureKind, str] = {
    "sparsity_roofline": "`speedup`, and a variant with an accuracy",
    "speedup": "`speedup`",
    "axis": "an axis with several numbers",
    "pareto": "`latency` with `area` or `power`, or `speedup` and a variant with an accuracy",
    "roofline": "a layer with FLOPs",
    "layers": f"at most {MAX_LAYERS_VARIANTS} variants",
    "capacity": "`speedup`, a pruned variant, and exactly one capacity axis with several values",
    "efficiency": "`speedup`, and an efficiency axis with several values (fidelity `r3`)",
    "inputs": "`latency`, and a network with several numbers of an input",
}


@dataclass(frozen=True)
class SweepContents:
    """What a sweep, planned or evaluated, has that figures may need."""

    variables: Collection[str]
    axis_sizes: Mapping[str, int]  # number of values by the dotted path of the axis
    variants: int
    any_accuracy: bool
    any_pruned: bool
    any_flops: bool = True
    inputs: Collection[tuple[str, Mapping[str, object]]] = ()  # each network, as often as it is run, and what it is run on

    @property
    def has_objectives(self) -> bool:
        """Whether there are two results to compare: latency with a cost, or speedup with an accuracy."""
        has_cost = "latency" in self.variables and not {"area", "power"}.isdisjoint(self.variables)
        return has_cost or ("speedup" in self.variables and self.any_accuracy)

    def swept(self, number: Literal["capacity", "efficiency"]) -> int:
        """How many axes with several values set such a number."""
        return sum(size > 1 for path, size in self.axis_sizes.items() if path.endswith(f".{number}"))


def varied_numbers(inputs: Iterable[tuple[str, Mapping[str, object]]]) -> dict[str, dict[str, set[int | float]]]:
    """The inputs of which some network is run on several numbers, with these numbers by the name of the network."""
    numbers: dict[str, dict[str, set[int | float]]] = {}
    for network, each in inputs:
        for name, value in each.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                numbers.setdefault(name, {}).setdefault(network, set()).add(value)
    several = {name: {network: values for network, values in of_input.items() if len(values) > 1} for name, of_input in numbers.items()}
    return {name: by_network for name, by_network in several.items() if by_network}


def lacks_speedup(kind: FigureKind, contents: SweepContents) -> bool:
    """Whether the figure needs the variable `speedup` and the sweep does not store it."""
    return kind not in ("roofline", "layers", *FREE_AXES) and "speedup" not in contents.variables


def unmet_needs(kind: FigureKind, contents: SweepContents) -> Iterator[tuple[str, str]]:
    """Each need of a figure, `speedup` aside, that the sweep does not meet: the problem and its fix."""
    if kind == "sparsity_roofline" and not contents.any_accuracy:
        yield f"the figure '{kind}' needs a variant with an accuracy", "draw 'speedup' instead, which needs none"
    if kind == "axis" and not any(size > 1 for path, size in contents.axis_sizes.items() if "." in path):
        fix = "sweep one, as in 'axes: {memory.dram.bandwidth: [1 TB/s, 2 TB/s]}'"
        yield f"the figure '{kind}' needs an axis with several numbers", fix
    if kind == "pareto" and not contents.has_objectives:
        fix = "store 'latency' and 'area', or list a method with accuracies"
        yield f"the figure '{kind}' needs latency with area or power, or speedup with an accuracy", fix
    if kind == "layers" and contents.variants > MAX_LAYERS_VARIANTS:
        yield f"the figure '{kind}' shows at most {MAX_LAYERS_VARIANTS} variants, not {contents.variants}", "select fewer variants"
    if kind == "roofline" and not contents.any_flops:
        yield f"the figure '{kind}' needs a layer with FLOPs", "draw 'speedup' instead, which needs none"
    if kind == "capacity" and (axes := contents.swept("capacity")) != 1:
        fix = "sweep one, as in 'axes: {memory.l2.capacity: [1 MB, 40 MB]}'"
        yield f"the figure '{kind}' needs exactly one capacity axis with several values, not {axes}", fix
    if kind == "capacity" and not contents.any_pruned:
        yield f"the figure '{kind}' needs a pruned variant", "list a method or a pattern"
    if kind == "efficiency" and not contents.swept("efficiency"):
        fix = "sweep one, as in 'axes: {units.tensor_core.runs.sparse_24.efficiency: [0.5, 1]}' with 'fidelity: r3'"
        yield f"the figure '{kind}' needs an efficiency axis with several values", fix
    if kind == "inputs" and not ("latency" in contents.variables and varied_numbers(contents.inputs)):
        fix = "sweep one, as in 'inputs: {sequence: [4096, 32768]}', and store 'latency'"
        yield f"the figure '{kind}' needs latencies of a network with several numbers of an input", fix
