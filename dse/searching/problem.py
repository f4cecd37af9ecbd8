"""What a search asks: the specification read and checked, every problem told at once. Nothing is evaluated, so that it answers soon."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dse.base import catalog
from dse.base.dtype import OperandDtypes
from dse.base.errors import ProblemCollector, did_you_mean
from dse.base.yaml_document import YamlDocument
from dse.model.efficiency.kernel_file import KernelRecord
from dse.model.efficiency.kernel_selection import available_kernels, select_kernels
from dse.model.peak import executions
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions
from dse.schema.search import AccuracyTolerance, SearchSpec
from dse.schema.sweep import SweepSpec, read_sweep
from dse.schema.workload_selection import WorkloadSelection
from dse.searching import space
from dse.searching.feasible_variants import left_out, tolerated
from dse.searching.space import Space
from dse.sweeping.descriptions import load_accelerators, load_workloads
from dse.sweeping.variants import select_variants
from dse.workload import Variant, Workload

RULES = "2"  # of how designs are scored and written: a search that began under others is not resumed


@dataclass(frozen=True, eq=False)
class SearchProblem:
    """Networks, which of their variants may run, and how designs are scored; `kernels`: measured ones, where the options ask for them.

    `drop`: the tolerated loss of accuracy; `weights`: of networks in a geometric mean, 1 where none is given. `name`: of the specification.
    `origin`: differs between searches whose designs have other results, or are written in another way. `unused`: warnings about what a
    sweep reads and a search does not.
    """

    networks: Mapping[str, tuple[Workload, WorkloadSelection]]
    batch: int
    dtype: OperandDtypes
    options: ModelOptions
    search: SearchSpec
    drop: AccuracyTolerance
    weights: Mapping[str, float] = field(default_factory=dict)
    kernels: tuple[KernelRecord, ...] = ()
    name: str = "search"
    origin: str = ""
    unused: tuple[str, ...] = ()

    @cached_property
    def feasible_variants(self) -> dict[str, list[Variant]]:
        """The variants that each network may run within the tolerated loss, the dense one first."""
        return {name: tolerated(*network, self.drop) for name, network in self.networks.items()}

    @property
    def warnings(self) -> list[str]:
        """What the specification names and the search does not use."""
        return [*self.unused, *(text for name, network in self.networks.items() for text in left_out(name, *network))]


def load(reference: catalog.Reference) -> tuple[Space, SearchProblem]:
    """What may vary and what is asked of it, by name or path of a specification, or as a mapping; raises InputError with every problem."""
    written, document = read_sweep(catalog.resolve_specification(reference))
    problems = ProblemCollector()
    _check(written, document, problems)
    problems.raise_if_any()
    accelerators = load_accelerators(written, document, problems)
    networks = _networks(written, document, problems)
    if not problems.problems:
        _check_weights(written, networks, document, problems)
    problems.raise_if_any()
    (base,) = accelerators
    found = space.load(written, document, base)
    assert written.search is not None
    with problems.collect(*document.locate(("accelerators", 0))):
        executions(base, written.dtype[0], written.model.fidelity)
    problems.raise_if_any()
    with problems.collect(*document.locate(("model", "fidelity"))):
        kernels = _kernels(written, document, base)
    problems.raise_if_any()
    options = {"trials", "ask_batch", "sampler", "seed", "polish"}  # which do not change the score of a design
    asked = written.model_dump_json(exclude={"search": options, "workloads": {"__all__": {"workload"}}, "plots": True, "store": True})
    contents = [workload.contents_sha256() for workload, selection in networks.values() if selection.workload is not None]
    parts = (RULES, asked, base.document.sha256, *contents, *(kernel.model_dump_json() for kernel in kernels))
    return found, SearchProblem(
        networks, written.batch[0], written.dtype[0], written.model, written.search, written.search.tolerance(written.accuracy_drop),
        _weights(written, networks), kernels, written.name, hashlib.sha256("".join(parts).encode()).hexdigest(), _unused(written, document),
    )  # fmt: skip


def _check(written: SweepSpec, document: YamlDocument, problems: ProblemCollector) -> None:
    if written.search is None:
        problems.add(document.make_problem((), "the specification has no 'search'", "add 'search: {maximize: [performance]}'"))
        return
    for key, count in (("accelerators", len(written.accelerators)), ("batch", len(written.batch)), ("dtype", len(written.dtype))):
        if count > 1:
            problems.add(document.make_problem((key,), f"a search starts from one of '{key}', not {count}", "keep one"))
    if not written.axes:
        problems.add(
            document.make_problem(("axes",), "nothing varies", "add an axis, as in 'memory.dram.bandwidth: {from: 1 TB/s, to: 8 TB/s}'")
        )
    if "cost.process" in written.axes and {"energy", "edp"} & written.search.costs:
        what = "energy follows a process that is given, not one that varies"
        problems.add(document.make_problem(("axes", "cost.process"), what, "search at one process, or leave 'energy' and 'edp' out"))
    for reference, selection in written.workloads.items():
        if selection.patterns:
            what = "patterns that no network was pruned to have no accuracy, and a search holds to one"
            fix = "remove 'patterns', or add variants with accuracies to the workload"
            problems.add(document.make_problem(("workloads", reference, "patterns"), what, fix))


def _check_weights(written: SweepSpec, networks: Mapping[str, Any], document: YamlDocument, problems: ProblemCollector) -> None:
    assert written.search is not None
    for name in written.search.weights:
        if name not in (*written.workloads, *networks):
            fix = did_you_mean(name, {*written.workloads, *networks})
            problems.add(document.make_problem(("search", "weights", name), f"'{name}' is no workload of this search", fix))


def _weights(written: SweepSpec, networks: Mapping[str, tuple[Workload, WorkloadSelection]]) -> dict[str, float]:
    """Of each network: its own, else that of the workload it is of."""
    assert written.search is not None
    keys = {id(selection): reference for reference, selection in written.workloads.items()}
    weights = written.search.weights
    return {name: weights.get(name, weights.get(keys[id(selection)], 1.0)) for name, (_, selection) in networks.items()}


def _unused(written: SweepSpec, document: YamlDocument) -> tuple[str, ...]:
    """Keys of the specification that say nothing to a search, as warnings."""
    given = [key for key in ("keep", "plots", "store") if key in written.model_fields_set]
    return tuple(str(document.make_problem((key,), "a search does not read this", "remove it, or run 'dse sweep'")) for key in given)


def _kernels(written: SweepSpec, document: YamlDocument, base: Accelerator) -> tuple[KernelRecord, ...]:
    """Those that stand for the executions of the accelerator; raises InputError where there are none for one."""
    kernels, dtype = available_kernels(base, written.model, document.path.parent), written.dtype[0]
    for execution in executions(base, dtype, written.model.fidelity) if kernels else ():
        select_kernels(execution, execution.pattern, base, dtype.compute, kernels)
    return kernels


def _networks(written: SweepSpec, document: YamlDocument, problems: ProblemCollector) -> dict[str, tuple[Workload, WorkloadSelection]]:
    """Each network by its name in results: once for every combination of its inputs."""
    networks: dict[str, tuple[Workload, WorkloadSelection]] = {}
    for key, workload in load_workloads(written, document, problems):
        selection, at = written.workloads[key], ("workloads", key)
        name = workload.name if selection.inputs else key
        if name in networks:
            what = f"another network is named '{name}' too"
            problems.add(document.make_problem(at, what, "rename one: results are labelled by names"))
        with problems.collect(*document.locate(at)):
            select_variants(workload, selection, document, at, problems)  # methods and sparsities that do not exist
        networks[name] = workload, selection
    return networks
