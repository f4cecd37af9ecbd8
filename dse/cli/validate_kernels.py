"""`dse validate` of measured sets: compare the fidelities with measured kernels and networks."""

from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from dse.base import output_file
from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.base.input_file import check_not_pipe, list_tables, table_name
from dse.base.progress import shows_progress
from dse.base.table_format import format_json
from dse.calibrate.attention.attention_set import AttentionSet, load_attention
from dse.calibrate.attention.measurement import is_attention_table
from dse.calibrate.modules.measurement import is_module_table
from dse.calibrate.modules.module_set import ModuleSet, load_modules
from dse.calibrate.tables.exclusions import explain_unused, summarize_reasons
from dse.calibrate.tables.experts_measurement import is_experts_table
from dse.calibrate.tables.measurement_set import SHIPPED_MEASUREMENTS, MeasurementSet, load_measurements
from dse.calibrate.tables.network_measurement import is_network_table
from dse.calibrate.validate import report
from dse.calibrate.validate.attention import compare_attention
from dse.calibrate.validate.comparison import Comparison, compute_reliability
from dse.calibrate.validate.crossover import Crossover, find_crossovers, format_crossovers
from dse.calibrate.validate.experts import ExpertsSet, compare_experts, load_experts
from dse.calibrate.validate.falling_times import describe_falling_times
from dse.calibrate.validate.left_out_devices import compare_left_out_devices
from dse.calibrate.validate.left_out_shapes import FittedSet, compare_left_out_shapes
from dse.calibrate.validate.modules import compare_modules, fit_kernels, predict_left_out
from dse.calibrate.validate.whole_networks import NetworkSet, compare_networks, load_networks
from dse.model.efficiency.efficiency_file import shipped_kernels


def execute(options: Namespace) -> tuple[str, bool]:
    """Fit and compare all sets, and draw a figure of each with `-o`.

    Returns the text to print, and whether `calibrated` has a smaller mean error than `sol` on every set. Raises InputError, also if
    nothing can be compared.
    """
    loaded = load_sets(options.data, options.what)
    sets, attention, modules, experts, networks = loaded
    if options.out:
        from dse.plot import figure_files

        output_file.check_writable(*(file for of_kind in loaded for each in of_kind for file in figure_files(options.out / each.name)))
    fitted = [
        FittedSet.fit(measurements) for measurements in tqdm(sets, unit=" sets", desc="fitting", delay=2, disable=not shows_progress())
    ]
    kernels = fit_kernels(modules)
    left_out = predict_left_out(kernels)
    comparisons = _compare(fitted, networks) + compare_attention(attention) + compare_modules(kernels, left_out)
    comparisons += [comparison for each in experts for comparison in compare_experts(each)]
    unpredicted = _list_unpredicted(fitted) + _list_unpredicted_attention(attention)
    unpredicted += [f"{each.name}: {reason}" for each in modules for reason in each.kernels_with_few_shapes]
    unpredicted += [f"{each.name}: {reason}" for each in (*modules, *experts, *networks) for reason in summarize_reasons(each.left_out)]
    if not comparisons:
        raise explain_unused("no row can be predicted", "give measurements of at least one kernel with enough shapes", unpredicted)
    crossovers = find_crossovers(kernels, left_out)
    rows = report.summarize(comparisons)
    failures = report.find_failures(rows)
    if options.out:
        _draw_figures(comparisons, options.out)
    notes_by_kind = {"out_of_scope": unpredicted, "times_that_fall": [note for each in fitted for note in describe_falling_times(each)]}
    if options.json:
        return _format_json(rows, notes_by_kind, failures, comparisons, crossovers), not failures
    format_table = report.format_brief_table if options.brief else report.format_table
    notes = [f"{each.name}: {each.host}" for each in networks if each.host] + _list_kernels_not_used(loaded, options.data)
    notes += [f"not predicted: {reason}" for reason in unpredicted]
    notes += [f"times that fall: {note}" for note in notes_by_kind["times_that_fall"]]
    notes += [f"calibrated is not better than sol: {failure}" for failure in failures]
    tables = [format_table(rows, options.markdown), *([] if options.brief else [report.format_reliability(comparisons, options.markdown)])]
    tables.append(format_crossovers(crossovers, options.markdown))
    return "\n".join(["\n\n".join(filter(None, tables)), "", *notes]).rstrip(), not failures


class LoadedSets(NamedTuple):
    """The measured sets of each kind."""

    products: list[MeasurementSet]
    attention: list[AttentionSet]
    modules: list[ModuleSet]
    experts: list[ExpertsSet]
    networks: list[NetworkSet]


def load_sets(folder: Path | None, name: str | None) -> LoadedSets:
    """The sets of products, of fused attention, of modules of sparse attention, of experts and of networks.

    In a folder (default: those that ship) or file, or only that with a name. Raises InputError with the errors of all tables.
    """
    if folder is None and name is not None and Path(name).exists():
        raise InputError(f"'{name}' is a path, not the name of a set", f"write 'dse validate --data {name}'")
    folder = folder or SHIPPED_MEASUREMENTS
    if not folder.exists() and (SHIPPED_MEASUREMENTS / folder).is_dir():
        folder = SHIPPED_MEASUREMENTS / folder
    paths = {table_name(path): path for path in (list_tables(folder) if folder.is_dir() else [folder])}
    if not paths or not folder.exists():
        what = f"no measurements in '{folder}'" if folder.exists() else f"'{folder}' does not exist"
        raise InputError(what, "give a folder of CSV files that 'dse measure' wrote, or one of them")
    if name is not None and name not in paths and Path(name).exists():
        raise InputError(f"'{name}' is a second path", "put the tables into one folder, and give that after '--data'")
    if name is not None and name not in paths:
        raise InputError(f"no set '{name}' in '{folder}'", did_you_mean(name, ["accuracy", "cost", "power", *paths]))
    check_not_pipe(folder)
    problems, loaded = ProblemCollector(), LoadedSets([], [], [], [], [])
    for path in [paths[name]] if name else paths.values():
        with problems.collect():
            if is_network_table(path):
                loaded.networks.append(load_networks(path))
            elif is_attention_table(path):
                loaded.attention.append(load_attention([path]))
            elif is_module_table(path):
                loaded.modules.append(load_modules(path))
            elif is_experts_table(path):
                loaded.experts.append(load_experts(path))
            else:
                loaded.products.append(load_measurements(path))
    problems.raise_if_any()
    return loaded


def _compare(fitted_sets: Sequence[FittedSet], networks: Sequence[NetworkSet]) -> list[Comparison]:
    comparisons = []
    for fitted in tqdm(fitted_sets, unit=" sets", desc="leaving out shapes", delay=2, disable=not shows_progress()):
        comparisons += compare_left_out_shapes(fitted)
    comparisons += compare_left_out_devices(fitted_sets, shipped_kernels())
    for network_set in networks:
        comparisons += compare_networks(network_set)
    return comparisons


def _draw_figures(comparisons: Sequence[Comparison], folder: Path) -> None:
    from dse.plot import save_figure, validation

    for name in dict.fromkeys(comparison.set for comparison in comparisons):
        of_set = [comparison for comparison in comparisons if comparison.set == name]
        save_figure(*validation.draw_figure(of_set), folder / name)


def _list_kernels_not_used(loaded: LoadedSets, folder: Path | None) -> list[str]:
    """A note for each device whose networks are predicted without the kernels of the same folder, unless these ship."""
    if folder is None or not folder.exists():
        return []
    of_networks = {network.device.name: network.device for each in loaded.networks for network in each.networks}
    of_kernels = {row.device for each in loaded.products for row in each.rows}
    unnamed = sorted(name for name, device in of_networks.items() if name in of_kernels and device.efficiencies is None)
    fix = "to use those of this folder, name the file of 'dse calibrate' in the accelerator, 'efficiencies: FILE'"
    return [f"networks on '{name}' are predicted by the kernels that ship; {fix}" for name in unnamed]


def _list_unpredicted(fitted_sets: Iterable[FittedSet]) -> list[str]:
    """Kernels without a model, and the reasons of rows left out with the number of each."""
    return [
        f"{fitted.measurements.name}: {reason}"
        for fitted in fitted_sets
        for reason in (*fitted.kernels_without_model, *summarize_reasons(fitted.measurements.left_out))
    ]


def _list_unpredicted_attention(sets: Iterable[AttentionSet]) -> list[str]:
    """Kernels with few launches, and the reasons of rows left out with the number of each."""
    return [f"{each.name}: {reason}" for each in sets for reason in (*each.kernels_with_few_launches, *summarize_reasons(each.left_out))]


def _format_json(
    rows: Sequence[report.Row],
    notes_by_kind: dict[str, list[str]],
    failures: list[str],
    comparisons: Sequence[Comparison],
    crossovers: Sequence[Crossover],
) -> str:
    points = [asdict(comparison) for comparison in comparisons]
    by_split = {split: [c for c in comparisons if c.split == split] for split in dict.fromkeys(c.split for c in comparisons)}
    reliability = {split: [each._asdict() for each in compute_reliability(of_split)] for split, of_split in by_split.items()}
    content = {"rows": rows, "reliability": reliability, **notes_by_kind, "worse_than_sol": failures, "points": points}
    content["crossovers"] = [each._asdict() | {"key": str(each.key)} for each in crossovers]
    return format_json(content)
