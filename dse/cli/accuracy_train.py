"""`dse accuracy train`: measure the accuracy of sparsity patterns on small networks, and write workloads that sweeps take."""

import json
import os
from argparse import Namespace
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.base.output_file import check_not_overwritten, check_writable, hold_write_lock, temporary_path
from dse.base.progress import logger, progress_bar, shows_progress
from dse.training.checkpoint import Checkpoint
from dse.training.dataset import load_digits, read_dataset
from dse.training.masks import check_step
from dse.training.request import PROFILES, STUDY, Profile, StudyRequest, check_networks, check_seeds, check_targets

if TYPE_CHECKING:
    from dse.training.study import NetworkResult


class AccuracyRow(TypedDict):
    """Mean accuracy of a network under a pattern over the seeds, with its 90% interval if there are several [%]."""

    network: str
    pattern: str
    sparsity: float
    value: float
    low: float | None
    high: float | None


def execute(options: Namespace) -> str:
    """Run or continue a study and write its results; returns a table as text or JSON. Raises InputError."""
    missing = [name for name in ("equinox", "optax", "sklearn") if find_spec(name) is None]
    if missing:
        raise InputError(f"training needs {', '.join(missing)}", "install it: pip install 'sparse-dse[train]'")
    request = build_request(options)
    checkpoint = Checkpoint(options.out)
    with hold_write_lock(options.out):
        finished = checkpoint.open(request.fingerprint(), options.force)
        if finished:
            logger.info(f"continuing: {finished} steps are finished")
        results = _run(request, checkpoint)
        rows = _rows(request, results)
        _write(options.out, request, results, rows, options.smtx)
        checkpoint.remove()
    return json.dumps(rows, indent=2) if options.json else f"{_format_rows(rows)}\n{options.out}"


def build_request(options: Namespace) -> StudyRequest:
    """The request of the command line; raises InputError with all errors."""
    problems, values = ProblemCollector(), dict[str, Any]()
    profile = next(iter(PROFILES.values()))
    with problems.collect(key="--profile"):
        profile = _choose_profile(options.profile)
    with problems.collect(key="-o"):
        _check_destination(options.out, options.force)
    with problems.collect(key="--networks"):
        values["networks"] = check_networks(options.networks or profile.networks)
    with problems.collect(key="--patterns"):
        values["targets"] = check_targets(options.patterns or profile.patterns, options.sparsities, profile.sparsities)
    with problems.collect(key="--seeds"):
        values["seeds"] = check_seeds(profile.seeds if options.seeds is None else options.seeds)
    with problems.collect(key="--data"):
        values["dataset"] = load_digits() if options.data is None else read_dataset(options.data)
    problems.raise_if_any()
    images = len(values["dataset"].train_images)
    request = StudyRequest(**values, profile=replace(profile, batch_size=min(profile.batch_size, images)), scope=options.scope)
    _check_sizes(request)
    return request


def _check_destination(out: Path, force: bool) -> None:
    """Raise InputError unless `out` is new, or a study that may be replaced."""
    if os.path.lexists(out) and not (out / STUDY).is_file():
        raise InputError(f"'{out}' exists already, and is not a study of 'dse accuracy train'", "give another path")
    check_not_overwritten(out, force=force)
    check_writable(out / STUDY)


def _choose_profile(name: str) -> Profile:
    if name not in PROFILES:
        raise InputError(f"unknown profile '{name}'", did_you_mean(name, PROFILES))
    return PROFILES[name]


def _check_sizes(request: StudyRequest) -> None:
    """Raise InputError with every pattern that is too coarse for a layer of a network."""
    import jax

    from dse.training.networks import NETWORKS

    problems, dataset = ProblemCollector(), request.dataset
    for name in request.networks:
        kind = NETWORKS[name]
        network = jax.eval_shape(lambda key, kind=kind: kind(dataset.image_shape, dataset.labels, key), jax.random.key(0))
        sizes = {layer: weights.shape for layer, weights in network.prunable_weights().items()}
        for target in request.targets:
            with problems.collect(key=name):
                check_step(target, sizes)
    problems.raise_if_any()


def _run(request: StudyRequest, checkpoint: Checkpoint) -> "list[NetworkResult]":
    from dse.training.study import count_steps, run_study

    total, results = count_steps(request), []
    with progress_bar("training", total, shows_progress()) as update:
        for result in run_study(request, checkpoint, update):
            results.append(result)
            logger.info(f"{result.name}: trained, {len(results)} of {len(request.networks)} networks")
    return results


def _write(out: Path, request: StudyRequest, results: "list[NetworkResult]", rows: list[AccuracyRow], smtx: bool) -> None:
    """Write all results and the figure to a temporary folder, then put it in the place of `out`."""
    import matplotlib
    import pandas as pd

    from dse.training.export import write_results

    matplotlib.use("Agg")
    from dse.plot.measured_accuracy import plot_measured_accuracy

    with temporary_path(out.absolute()) as folder:
        folder.mkdir()
        write_results(folder, request, results, smtx)
        plot_measured_accuracy(pd.DataFrame(rows)).savefig(folder / "accuracy.png", dpi=120)
        if out.exists():
            os.replace(out, folder.with_name("previous"))
        os.replace(folder, out)


def _rows(request: StudyRequest, results: "list[NetworkResult]") -> list[AccuracyRow]:
    """Mean accuracy and interval of every network and target, the dense networks first."""
    from dse.training.export import mean_accuracy

    rows: list[AccuracyRow] = []
    for result in results:
        steps = [("dense", 0.0, result.dense)] + [(str(target.pattern), target.sparsity, step) for target, step in result.targets.items()]
        network = f"{request.dataset.name}-{result.name}"
        for pattern, sparsity, step in steps:
            mean = mean_accuracy(step.accuracies)
            rows.append(AccuracyRow(network=network, pattern=pattern, sparsity=sparsity, value=mean.value, low=mean.low, high=mean.high))
    return rows


def _format_rows(rows: list[AccuracyRow]) -> str:
    lines = [("network", "pattern", "sparsity", "accuracy [%]", "90% interval")]
    for row in rows:
        interval = "" if row["low"] is None or row["high"] is None else f"{row['low']:.2f} to {row['high']:.2f}"
        lines.append((row["network"], row["pattern"], f"{row['sparsity']:g}", f"{row['value']:.2f}", interval))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)
