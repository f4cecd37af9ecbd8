"""Draw figures of a sweep's dataset, each with the table that it shows.

`draw_figure(kind, dataset)` returns a matplotlib figure and a pandas table; `save_figures` writes both, as PNG, SVG or PDF
and as CSV. The kinds and their needs are those of `dse.schema.figures`.

kinds of figures: sparsity_roofline, speedup, axis, pareto, roofline, layers, capacity, efficiency, inputs
figures of other commands: search, io, validation, waterfall, measured_accuracy
accessor: `results.dse` of xarray datasets
shared by figures: selection (what of a dataset is shown), style (colours, panels, legend), uncertainty (intervals, estimates), cloud (of
very many points), labels (placement of text)
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import matplotlib
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType

from dse.base import output_file
from dse.base.errors import InputError, Problem, UnfinishedError
from dse.plot import axis, capacity, efficiency, inputs, layers, pareto, roofline, sparsity_roofline, speedup
from dse.report.result_kind import check_labels, result_kind
from dse.schema.figures import FREE_AXES, OF_POINTS, FigureKind, ImageFormat, SweepContents, lacks_speedup, unmet_needs
from dse.sweeping import provenance
from dse.sweeping.accuracy_losses import ASSUMED_DROP
from dse.workload.accuracy_samples import network_name

EDITABLE_TEXT: dict[RcKeyType, object] = {"pdf.fonttype": 42, "svg.fonttype": "none"}  # text stays text in vector images

FIGURES: dict[FigureKind, Callable[..., tuple[Figure, pd.DataFrame]]] = {  # those of FREE_AXES take x and y, too
    "sparsity_roofline": sparsity_roofline.draw_figure,
    "speedup": speedup.draw_figure,
    "axis": axis.draw_figure,
    "pareto": pareto.draw_default_figure,
    "roofline": roofline.draw_figure,
    "layers": layers.draw_figure,
    "capacity": capacity.draw_figure,
    "efficiency": efficiency.draw_figure,
    "inputs": inputs.draw_figure,
}
FIGURES_OF_POINTS: dict[FigureKind, Callable[..., tuple[Figure, pd.DataFrame]]] = {
    "pareto": pareto.draw_default_figure,
    "axis": pareto.draw_axis_figure,
}


def draw_figure(kind: FigureKind, dataset: xr.Dataset, x: str | None = None, y: str | None = None) -> tuple[Figure, pd.DataFrame]:
    """One figure of a dataset, and the table that it shows; `x` and `y` choose the axes of the kinds `axis` and `pareto`.

    Raises InputError that says what the dataset lacks for it.
    """
    has_points = "point" in dataset.dims
    if (has_points or (x is None and y is None)) and (unmet := _unmet_needs(kind, dataset)):
        raise InputError.from_problems(unmet)
    draw = (FIGURES_OF_POINTS if has_points else FIGURES)[kind]
    if x is None and y is None:
        return draw(dataset)
    if kind not in FREE_AXES:
        raise InputError(f"the axes of the figure '{kind}' are fixed", "choose x and y of the figure 'axis' or 'pareto'")
    return draw(dataset, x, y)


def default_kinds(dataset: xr.Dataset) -> tuple[FigureKind, ...]:
    """The figures that the dataset's specification lists, else all that the dataset allows; of single points, those that show points."""
    if "point" in dataset.dims:
        return OF_POINTS
    return provenance.read_spec(dataset).plots or tuple(kind for kind in FIGURES if not _unmet_needs(kind, dataset))


def _unmet_needs(kind: FigureKind, dataset: xr.Dataset) -> list[Problem]:
    if "point" in dataset.dims:
        message = f"the figure '{kind}' needs all results of a sweep, and the dataset holds single points"
        fix = f"draw {' or '.join(map(repr, OF_POINTS))} of it, or give a dataset of 'dse sweep' with 'keep: all'"
        return [] if kind in OF_POINTS else [Problem(message, fix)]
    contents = SweepContents(
        variables={str(name) for name in dataset.data_vars},
        axis_sizes={str(dim): size for dim, size in dataset.sizes.items()},
        variants=dataset.variant.size,
        any_accuracy=any(bool(dataset[name].notnull().any()) for name in ("accuracy", ASSUMED_DROP) if name in dataset.coords),
        any_pruned=bool((dataset.method != "dense").any()),
        inputs=[(network_name(name), each) for name, each in inputs.read_inputs(dataset).items()],
    )
    unmet = [Problem(*need) for need in unmet_needs(kind, contents)]
    if lacks_speedup(kind, contents):
        unmet.append(Problem(f"the figure '{kind}' needs 'speedup'", "add it to 'store: {variables: [...]}' and sweep again"))
    return unmet


def save_figures(
    dataset: xr.Dataset,
    kinds: Iterable[FigureKind],
    folder: Path,
    prefix: str = "",
    *,
    image: ImageFormat = "png",
    x: str | None = None,
    y: str | None = None,
) -> list[Path]:
    """Draw figures and save each as PREFIX + KIND + .png (or another image format) and .csv in `folder`; returns the paths.

    Raises FiguresNotDrawnError if some cannot be drawn, after the others are saved.
    """
    stems: dict[FigureKind, Path] = {kind: folder / f"{prefix}{kind}" for kind in kinds}
    if stems:
        check_results(dataset)
    output_file.check_writable(*(file for stem in stems.values() for file in figure_files(stem, image)))
    written, errors = list[Path](), dict[str, InputError]()
    for kind, stem in stems.items():
        try:
            figure, table = draw_figure(kind, dataset, x, y)
        except InputError as error:
            errors[kind] = error
        else:
            written += save_figure(figure, table, stem, image)
    if errors:
        raise FiguresNotDrawnError(written, errors)
    return written


class FiguresNotDrawnError(UnfinishedError):
    """Some figures of a dataset cannot be drawn; `written` lists the files of the others, `problems` the reasons."""

    def __init__(self, written: list[Path], errors: Mapping[str, InputError]):
        super().__init__("\n".join(f"{kind} was not drawn: {error}" for kind, error in errors.items()))
        self.written = written
        self.problems = tuple(problem for error in errors.values() for problem in error.problems)


def check_results(dataset: xr.Dataset) -> None:
    """Raise InputError unless the dataset has the labels of a sweep's results, or holds the points of a front or of the best results."""
    if "point" in dataset.dims:
        result_kind(dataset)
    else:
        check_labels(dataset)


def figure_files(stem: Path, image: ImageFormat = "png") -> list[Path]:
    """The files of a figure: its image, STEM.png, and its table, STEM.csv."""
    return [stem.with_name(f"{stem.name}.{ending}") for ending in (image, "csv")]


def save_image(figure: Figure, path: Path, image: ImageFormat = "png") -> None:
    with matplotlib.rc_context(EDITABLE_TEXT):
        output_file.replace_file(path, lambda fresh: figure.savefig(fresh, dpi=150, format=image))


def save_figure(figure: Figure, table: pd.DataFrame, stem: Path, image: ImageFormat = "png") -> list[Path]:
    """Write the image and STEM.csv; returns the paths."""
    picture, csv = figure_files(stem, image)
    save_image(figure, picture, image)
    output_file.replace_file(csv, lambda path: table.to_csv(path, index=False))
    return [picture, csv]
