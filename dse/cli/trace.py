"""`dse trace`: read a pruned network, count its masks, write a workload, and print the coverage report."""

import argparse
import json
import math
import re
import sys
from dataclasses import replace
from math import prod

import yaml
from yamlcore import CCoreLoader

from dse.base import catalog
from dse.base.errors import InputError, ProblemCollector
from dse.base.name_value import parse_pairs
from dse.base.progress import shows_progress
from dse.cli.arguments.common import refuse_unused
from dse.readers.parsed_network import ParsedNetwork, Shape
from dse.sparsity.statistics import BLOCKS, GROUPS, BlockSize
from dse.trace.activations import count_recordings
from dse.trace.coverage import format_report, make_report
from dse.trace.detect import ReaderOptions, match_workload, parse_network
from dse.trace.trace import CountOptions, trace_network
from dse.trace.write import WorkloadDetails, check_destination, write_workload
from dse.workload import tables
from dse.workload.schema import RESERVED_METHODS

MAX_BLOCK_ELEMENTS = 2**20


def execute(options: argparse.Namespace) -> str:
    """Trace a network and write its workload; returns the coverage report as text or JSON. Raises InputError."""
    count_options, reader_options, details = _parse_options(options)
    check_destination(options.out, options.source)
    network = parse_network(options.source, reader_options)
    if options.like is not None:
        network, reader_options = _match_workload(network, options.like, reader_options)
    states = trace_network(network, count_options, options.method, options.sparsity, progress=shows_progress())
    if options.accuracy is not None and sum(not state.is_dense for state in states) != 1:
        raise InputError("an accuracy belongs to one pruned state", "trace that state alone, or write accuracy.csv", key="--accuracy")
    if options.activations is not None:
        activations = count_recordings(
            options.activations, network.layers, count_options.groups, options.tolerance, progress=shows_progress()
        )
        states = [replace(state, activations=activations) for state in states]
    report = make_report(network, states, count_options)
    write_workload(options.out, network, states, report, details, reader_options.inputs)
    for warning in report["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    return json.dumps(report, indent=2) if options.json else f"{format_report(report)}\n{options.out}"


def _match_workload(network: ParsedNetwork, reference: str, options: ReaderOptions) -> tuple[ParsedNetwork, ReaderOptions]:
    """The masks of a network on the layers of a workload, which says how often each one runs."""
    workload = tables.load(catalog.find_path("workloads", reference), options.inputs)
    return match_workload(workload, network), replace(options, inputs={**workload.description.inputs, **options.inputs})


def _parse_options(options: argparse.Namespace) -> tuple[CountOptions, ReaderOptions, WorkloadDetails]:
    """Check all options; raises InputError with every wrong one."""
    problems = ProblemCollector()
    blocks, groups, shape, inputs = BLOCKS, GROUPS, None, {}
    with problems.collect(key="--blocks"):
        blocks = BLOCKS if options.blocks is None else tuple(_parse_block(text) for text in options.blocks)
    with problems.collect(key="--groups"):
        groups = GROUPS if options.groups is None else _check_groups(options.groups)
    with problems.collect(key="--shape"):
        shape = None if options.shape is None else _parse_shape(options.shape)
    with problems.collect(key="--input"):
        inputs = {name: _parse_value(text) for name, text in parse_pairs(options.input, "sequence=512").items()}
    for name in ("tolerance", "sparsity", "accuracy", "dense_accuracy"):
        with problems.collect(key=f"--{name.replace('_', '-')}"):
            _check_number(name, getattr(options, name))
    with problems.collect():
        if options.accuracy is None:
            refuse_unused(options, ["dense_accuracy"], "without --accuracy")
    with problems.collect(key="--method"):
        _check_method(options.method)
    problems.raise_if_any()
    details = WorkloadDetails(options.task, options.metric, options.lower_is_better, options.accuracy, options.dense_accuracy)
    return CountOptions(options.tolerance, blocks, groups), ReaderOptions(shape, inputs), details


def _parse_shape(text: str) -> Shape:
    """'1x3x224x224' as a tuple."""
    sizes = tuple(int(part) if re.fullmatch("[0-9]{1,9}", part) else 0 for part in text.lower().split("x"))
    if min(sizes) < 1:
        raise InputError(f"'{text}' is not a shape", "write whole numbers with x between, as in '16x16'")
    return sizes


def _parse_block(text: str) -> BlockSize:
    sizes = _parse_shape(text)
    if len(sizes) != 2 or prod(sizes) > MAX_BLOCK_ELEMENTS:
        raise InputError(f"'{text}' is not a block size", f"write rows x columns of at most {MAX_BLOCK_ELEMENTS} elements, as in '16x16'")
    return sizes


def _check_groups(groups: list[int]) -> tuple[int, ...]:
    if min(groups) < 2 or max(groups) > MAX_BLOCK_ELEMENTS:
        what = f"group sizes from {min(groups)} to {max(groups)} are out of range"
        raise InputError(what, f"write sizes from 2 to {MAX_BLOCK_ELEMENTS}")
    return tuple(groups)


def _parse_value(text: str) -> object:
    """The value of an input, in YAML."""
    try:
        return yaml.load(text, Loader=CCoreLoader)
    except yaml.YAMLError as error:
        raise InputError(f"'{text}' is not a valid value", "write a number or a word") from error


def _check_number(name: str, value: float | None) -> None:
    upper = 1.0 if name == "sparsity" else math.inf
    lower = -math.inf if "accuracy" in name else 0.0
    fix = "write a number from 0 to 1" if upper == 1 else f"write a finite number{', not below 0' if lower == 0 else ''}"
    if value is not None and not (math.isfinite(value) and lower <= value <= upper):
        raise InputError(f"{value} is out of range", fix)


def _check_method(method: str | None) -> None:
    """The method names a file in variants/, and must not be a reserved word."""
    if method is None:
        return
    if not re.fullmatch(r"[\w.+-]+", method):
        raise InputError(f"'{method}' is not a valid file name", "write letters, digits, '_', '.', '+' and '-'")
    if method in RESERVED_METHODS:
        raise InputError(f"the method name '{method}' is reserved", "write another name")
