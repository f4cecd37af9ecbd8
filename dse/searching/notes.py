"""Notes about the best design of a search that a reader might misunderstand."""

from collections.abc import Iterator

import numpy as np

from dse.searching.archive import Archive
from dse.searching.space import DesignMatrix, Dimension
from dse.sweeping.model_warnings import capacity_note, on_chip_capacities


def list_notes(archive: Archive) -> list[str]:
    """Notes about the best design: a low performance behind a high speedup, and capacities that do not matter under the options."""
    return [*_slower_than_described(archive), *_idle_capacities(archive)]


def _slower_than_described(archive: Archive) -> Iterator[str]:
    """A search for speedup finds designs on which the dense network is slow, too."""
    evaluator = archive.evaluator
    performance = float(evaluator.evaluate(_best(archive))["performance"][0])
    if performance < 1 and any("speedup" in objective.names for objective, _ in evaluator.problem.search.objectives):
        yield (
            f"the best design is slower than the accelerator as described (performance {performance:.3g}): 'speedup' is over the dense "
            "network on the same design, 'performance' is over that on the described one"
        )


def _idle_capacities(archive: Archive) -> Iterator[str]:
    evaluator, best = archive.evaluator, _best(archive)
    paths = on_chip_capacities(evaluator.space.accelerator)
    for number, dimension in enumerate(evaluator.space.dimensions):
        if dimension.path in paths:
            designs = np.repeat(best, 2, axis=0)
            designs[:, number] = _ends(dimension)
            smallest, largest = evaluator.evaluate(evaluator.space.canonicalize(designs))["latency"]
            yield from filter(None, [capacity_note(dimension.path, float(smallest / largest), evaluator.problem.options)])


def _best(archive: Archive) -> DesignMatrix:
    return archive.designs[[archive.best_index()]]


def _ends(dimension: Dimension) -> tuple[float, float]:
    """The smallest and the largest value of a number, as columns of designs have them."""
    if dimension.continuous:
        return float(dimension.axis.values.min()), float(dimension.axis.values.max())
    choices = dimension.axis.values[: dimension.choices]
    return float(choices.argmin()), float(choices.argmax())
