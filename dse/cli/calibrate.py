"""`dse calibrate`, `dse validate` of measured kernels: what they read, write and say."""

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from dse.base import atomic_write
from dse.base.errors import InputError, Problem, ProblemCollector, did_you_mean
from dse.calibrate.checkpoint import Checkpoint
from dse.calibrate.export import as_yaml, describe
from dse.calibrate.fit import FEWEST_SHAPES, bootstrap, fit
from dse.calibrate.measured_launches import launches
from dse.calibrate.measured_set import SHIPPED_MEASUREMENTS, MeasuredSet, load, pooled
from dse.calibrate.predict import probe
from dse.calibrate.validate import networks as whole_networks
from dse.calibrate.validate import report, shapes
from dse.calibrate.validate.devices import across_devices, sources_of
from dse.calibrate.validate.networks import NetworkSet
from dse.model.efficiency.kernel_file import KernelRecord
from dse.model.efficiency.launches import KernelLaunches

POOR = 0.5  # mean error of a fit that has explained little


def calibrate(options: Namespace) -> str:
    """Fit every kernel of the measurements that has enough shapes; returns what was written, and what was left out.

    Each kernel is kept as soon as it is fitted, so that a run that was interrupted goes on where it was.
    """
    measured = _pooled(options)
    known = launches(measured)
    enough = [kernel for kernel, seen in known.items() if len(set(seen.shapes)) >= FEWEST_SHAPES]
    if not enough:
        raise InputError(f"no kernel has {FEWEST_SHAPES} shapes", "measure more: an efficiency is a function of the work")
    checkpoint = Checkpoint(options.out, options.measurements, options.draws, options.seed)
    fitted = checkpoint.read()
    with tqdm(total=len(enough), initial=len(fitted), unit=" kernels", delay=2) as bar:
        for kernel in enough:
            if kernel not in fitted:
                bar.set_postfix_str(f"{kernel}, {len(known[kernel])} launches")
                fitted[kernel] = _fitted(known[kernel], measured, options)
                checkpoint.add(fitted[kernel])
                bar.update()
    found = [fitted[kernel] for kernel in enough]
    command = " ".join(["dse calibrate", *(path.name for path in options.measurements), "-o", options.out.name])
    text = as_yaml(found, options.measurements, f"{command} --draws {options.draws} --seed {options.seed}")
    atomic_write.replace_file(options.out, lambda path: path.write_text(text))
    checkpoint.remove()
    lines = [f"{kernel}: {kernel.shapes} shapes, mean error {kernel.error:.1%}" for kernel in found]
    few = [
        f"left out: {kernel}, {len(set(seen.shapes))} shapes, fewer than {FEWEST_SHAPES}"
        for kernel, seen in known.items()
        if kernel not in fitted
    ]
    poor = [
        f"explained by no law of work, tiles or bytes: {kernel}, mean error {kernel.error:.0%}" for kernel in found if kernel.error > POOR
    ]
    return "\n".join([*lines, *few, *(f"left out: {row}" for row in measured.left_out), *poor, *_uncounted(found), str(options.out)])


def _fitted(seen: KernelLaunches, measured: MeasuredSet, options: Namespace) -> KernelRecord:
    fitted = bootstrap(fit(seen), seen, options.draws, options.seed)
    probe(fitted, seen)
    return describe(fitted, seen, measured)


def _pooled(options: Namespace) -> MeasuredSet:
    """The rows of all files; raises InputError with every problem of the request."""
    problems, sets = ProblemCollector(), []
    for path in options.measurements:
        with problems.collect():
            sets.append(load(path))
        if path.exists() and options.out.exists() and path.samefile(options.out):
            problems.add(Problem(f"'{path}' would be written over", "give another place for the efficiencies"))
    for name in ("draws", "seed"):
        if getattr(options, name) < 0:
            problems.add(Problem(f"{getattr(options, name)} {name} is out of range", "write a number of at least 0"))
    with problems.collect():
        atomic_write.check_writable(options.out)
    problems.raise_if_any()
    return pooled(sets)


def _uncounted(kernels: Sequence[KernelRecord]) -> list[str]:
    """Units whose processors no description counts, and what the waves of their kernels tell."""
    told = []
    for unit in dict.fromkeys((kernel.device, kernel.unit) for kernel in kernels if kernel.rates.processors is None):
        counts = sorted({kernel.processors for kernel in kernels if (kernel.device, kernel.unit) == unit and kernel.processors})
        waves = f"the waves tell of {', '.join(f'{count:g}' for count in counts)}" if counts else "the waves tell of none"
        told.append(f"'{unit[0]}' says nothing of units.{unit[1]}.processors: {waves}")
    return told


def measured_sets(folder: Path | None, name: str | None) -> tuple[list[MeasuredSet], list[NetworkSet]]:
    """The sets of a folder (default: those that ship), or one of them by name, of kernels and of networks; raises InputError with every
    problem."""
    where = folder or SHIPPED_MEASUREMENTS
    paths = {path.stem: path for path in sorted(where.glob("*.csv"))}
    if not paths:
        raise InputError(f"no measurements in '{where}'", "give a folder of CSV files that 'dse measure' wrote")
    if name is not None and name not in paths:
        raise InputError(f"no set '{name}' in '{where}'", did_you_mean(name, ["cost", *paths]))
    problems, sets, networks = ProblemCollector(), [], []
    for path in [paths[name]] if name else paths.values():
        with problems.collect():
            if whole_networks.is_networks(path):
                networks.append(whole_networks.load(path))
            else:
                sets.append(load(path))
    problems.raise_if_any()
    return sets, networks


def _counted(reasons: Iterable[str]) -> list[str]:
    """What was left out, alike ones as one."""
    alike = Counter(reason.rpartition(": ")[2] for reason in reasons)
    return [f"{number} rows: {reason}" for reason, number in alike.items()]


def validated(options: Namespace) -> tuple[str, bool]:
    """The tables, and whether calibrating pays on every set."""
    sets, networks = measured_sets(options.data, options.what)
    if options.out:
        from dse.plot import figure_files

        atomic_write.check_writable(*(file for measured in (*sets, *networks) for file in figure_files(options.out / measured.name)))
    evidence = [shapes.Evidence.of(measured) for measured in tqdm(sets, unit=" sets", desc="fitting", delay=2)]
    points, sources = [], sources_of(evidence)
    for each in tqdm(evidence, unit=" sets", desc="leaving out", delay=2):
        points += shapes.across_shapes(each) + across_devices(each, sources)
    for measured in tqdm(networks, unit=" sets", desc="networks", delay=2):
        points += whole_networks.points(measured)
    found = report.rows(points)
    worse = report.pays(found)
    apart = [f"{each.measured.name}: {reason}" for each in evidence for reason in (*each.out_of_scope, *_counted(each.measured.left_out))]
    if options.out:
        from dse.plot import save_figure, validation

        for name in dict.fromkeys(point.set for point in points):
            save_figure(*validation.figure([point for point in points if point.set == name]), options.out / name)
    if options.json:
        text = json.dumps({"rows": found, "out_of_scope": apart, "worse_than_sol": worse, "points": [asdict(p) for p in points]}, indent=2)
        return text.replace("NaN", "null"), not worse
    notes = [f"not predicted: {line}" for line in apart] + [f"calibrating does not pay: {line}" for line in worse]
    told = report.brief if options.brief else report.table
    return "\n".join([told(found, options.markdown), "", *notes]).rstrip(), not worse
