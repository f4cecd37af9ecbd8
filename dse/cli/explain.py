"""`dse explain`: why two sides differ, or why a sparse network is not as fast as its pattern allows."""

from argparse import Namespace
from collections.abc import Mapping, Sequence

from dse.base import output_file
from dse.base.errors import InputError, ProblemCollector
from dse.base.name_value import parse_pairs
from dse.base.progress import announced_step
from dse.explaining.explain import explain
from dse.explaining.text import format_explanation

SHARED = ("accelerator", "workload", "shape", "batch", "dtype", "fidelity")


def execute(options: Namespace) -> str:
    """Explain the sides, write the figure and the file of the options, and return the text for stdout; raises InputError."""
    shared = {name: value for name in SHARED if (value := getattr(options, name)) is not None}
    problems = ProblemCollector()
    with problems.collect(key="--set"):
        shared |= _parse_settings(options.set, shared)
    problems.raise_if_any()
    figure = options.figure
    if figure is not None and figure.suffix not in (".png", ".svg", ".pdf"):
        raise InputError(f"'{figure}' is not a figure that can be written", "end it in .png, .svg or .pdf", key="--figure")
    named = [path for path in (options.out, figure) if path is not None]
    output_file.check_not_overwritten(*named, force=options.force)
    output_file.check_writable(*named)
    with announced_step("explaining"):
        explanation = explain(options.a, options.b, quantity=options.quantity, reach=options.reach, **shared)
    if figure is not None:
        from dse.plot.waterfall import draw_figure  # matplotlib takes a second to import

        drawn = draw_figure(explanation)[0]
        output_file.replace_file(figure, lambda path: drawn.savefig(path, dpi=150, format=figure.suffix[1:]))
    text = format_explanation(explanation, options.format)
    if options.out is None:
        return text
    output_file.replace_file(options.out, lambda path: path.write_text(text + "\n", "utf-8"))
    return "\n".join([explanation.sentence, *map(str, named)])


def _parse_settings(texts: Sequence[str], given: Mapping[str, object]) -> dict[str, str]:
    """The settings of --set; raises InputError for one that another option gives, or that no side has."""
    settings = parse_pairs(texts)
    for name in settings:
        if name in ("a", "b"):
            raise InputError(f"'{name}' is not a setting", "write the sides in front of the options")
        if name in ("quantity", "reach"):
            raise InputError(f"'{name}' is not a setting of the sides", f"write '--{name} {settings[name]}'")
        if name in given:
            raise InputError(f"'{name}' is given twice, by --set and by --{name}", "keep one")
    return settings
