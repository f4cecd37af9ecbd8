"""`dse trace`: options checked, network read, masks counted, folder written, report told."""

import argparse
import json
import math
import re
import sys
from dataclasses import replace
from math import prod
from typing import Any

import yaml
from yamlcore import CCoreLoader

from dse.base import catalog
from dse.base.errors import InputError, ProblemCollector
from dse.readers import layer_matching
from dse.readers.parsed_network import NetworkState, ParsedNetwork, understood
from dse.sparsity import statistics
from dse.trace import activations, coverage, detect, write
from dse.trace.detect import Hints
from dse.trace.trace import Counting, trace
from dse.workload import tables


def execute(options: argparse.Namespace) -> str:
    """The report of a trace, as text or JSON, once its folder is written; raises InputError."""
    counting, hints, about = _options(options)
    write.check(options.out, options.source)
    source = detect.read(options.source, hints)
    if options.like is not None:
        source, hints = _on_workload(source, options.like, hints)
    states = trace(source, counting, options.method, options.sparsity, progress=True)
    if options.accuracy is not None and sum(not state.dense for state in states) != 1:
        fix = "trace that state alone, or write accuracy.csv"
        raise InputError("an accuracy belongs to one pruned state", fix, key="--accuracy")
    if options.activations is not None:
        recorded = activations.densities(options.activations, source.layers, options.tolerance)
        states = [replace(state, activations=recorded) for state in states]
    told = coverage.report(source, states, counting)
    write.write(options.out, source, states, told, about, hints.inputs)
    for remark in told["remarks"]:
        print(f"note: {remark}", file=sys.stderr)
    return json.dumps(told, indent=2) if options.json else f"{coverage.render(told)}\n{options.out}"


def _options(options: argparse.Namespace) -> tuple[Counting, Hints, write.About]:
    problems, found = ProblemCollector(), {}
    with problems.collect(key="--blocks"):
        found["blocks"] = statistics.BLOCKS if options.blocks is None else tuple(_sizes(text, 2) for text in options.blocks)
    with problems.collect(key="--groups"):
        found["groups"] = statistics.GROUPS if options.groups is None else _groups(options.groups)
    with problems.collect(key="--shape"):
        found["shape"] = options.shape and _sizes(options.shape)
    with problems.collect(key="--input"):
        found["inputs"] = dict(_assignment(text) for text in options.input)
    for name in ("tolerance", "sparsity", "accuracy", "dense_accuracy"):
        with problems.collect(key=f"--{name.replace('_', '-')}"):
            _check_number(name, getattr(options, name))
    with problems.collect(key="--method"):
        if options.method is not None and not re.fullmatch(r"[\w.+-]+", options.method):
            raise InputError(f"'{options.method}' can't name a file", "write letters, digits, '_', '.', '+' and '-'")
        if options.method in ("dense", "hypothetical"):
            raise InputError(f"'{options.method}' is no method of pruning", "call it otherwise: the name has a meaning of its own")
    problems.raise_if_any()
    counting = Counting(options.tolerance, found["blocks"], found["groups"])
    about = write.About(options.task, options.metric, options.lower_is_better, options.accuracy, options.dense_accuracy)
    return counting, Hints(found["shape"], found["inputs"]), about


MOST = 2**20  # elements of a block or group


def _sizes(text: str, number: int | None = None) -> Any:
    sizes = tuple(int(part) if re.fullmatch("[0-9]{1,9}", part) else 0 for part in text.lower().split("x"))
    if min(sizes) < 1 or number not in (None, len(sizes)) or (number and prod(sizes) > MOST):
        raise InputError(f"'{text}' is not a shape", "write whole numbers with x between, as in '16x16'")
    return sizes


def _groups(groups: list[int]) -> tuple[int, ...]:
    if min(groups) < 2 or max(groups) > MOST:
        raise InputError(f"groups of {min(groups)} to {max(groups)} can't be counted", f"write sizes from 2 to {MOST}")
    return tuple(groups)


def _assignment(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise InputError(f"'{text}' is no input", "write KEY=VALUE, as in sequence=512")
    try:
        return key, yaml.load(value, Loader=CCoreLoader)
    except yaml.YAMLError as error:
        raise InputError(f"'{value}' is no value", "write a number or a word") from error


def _check_number(name: str, value: float | None) -> None:
    upper = 1.0 if name == "sparsity" else math.inf
    lower = -math.inf if "accuracy" in name else 0.0
    if value is not None and not (math.isfinite(value) and lower <= value <= upper):
        raise InputError(f"{value} is out of range", "write a number from 0 to 1" if upper == 1 else "write a finite number, not below 0")


def _on_workload(source: ParsedNetwork, reference: str, hints: Hints) -> tuple[ParsedNetwork, Hints]:
    """The masks of a source on the layers of a workload, which say how often each one runs."""
    known = tables.load(catalog.find_path("workloads", reference), hints.inputs)
    rows, about = tuple(known.layers.to_rows()), f"layers: as in the workload {known.description.name}"
    base = ParsedNetwork(
        known.folder, "workload", rows, (NetworkState({}),), understood(rows), notes=(about,), network=known.description.network
    )
    return layer_matching.on_network(base, source), replace(hints, inputs={**known.description.inputs, **hints.inputs})
