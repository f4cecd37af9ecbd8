"""The problem that a search solves: its specification, read and checked, with all errors reported at once.

Nothing is evaluated here, so that `dse check` answers quickly.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dse.base import catalog
from dse.base.dtype import OperandDtypes
from dse.base.errors import ProblemCollector, did_you_mean
from dse.base.expression import Expression, split_brackets
from dse.base.yaml_document import YamlDocument
from dse.model.cost.coefficients import PROCESS_PATH, check_process
from dse.model.cost.design import Design
from dse.model.efficiency.efficiency_file import FittedRecord, available_kernels
from dse.model.efficiency.kernels.selection import select_kernels
from dse.model.executions import list_executions
from dse.model.operand_blocks import check_whole_blocks
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions
from dse.schema.run_settings import RunSettings, run_settings
from dse.schema.search import AccuracyTolerance, SearchSpec
from dse.schema.sweep import SweepSpec, read_sweep
from dse.schema.workload_selection import WorkloadSelection
from dse.searching.assumed_variants import describe_assumptions
from dse.searching.bracketed_networks import Brackets, FixedRun, add_fixed_runs, fixed_settings, list_dtypes, select_networks
from dse.searching.feasible_variants import list_excluded, select_feasible
from dse.searching.space import Space
from dse.searching.space_builder import build_space
from dse.sweeping.descriptions import hash_descriptions, load_accelerators, load_workloads
from dse.sweeping.linked_axes import link_accelerators
from dse.sweeping.variants import check_assumed_drops, select_variants
from dse.workload import Variant, Workload

RULES_VERSION = "3"  # of scoring and storing designs: searches that began with another version are not resumed
UNREAD_KEYS = ("keep", "plots", "store")  # of a specification, by a search
IRRELEVANT_OPTIONS = {"trials", "ask_batch", "sampler", "seed", "polish", "tie_tolerance"}  # of a search, to the score of a design

Networks = Mapping[str, tuple[Workload, WorkloadSelection]]


@dataclass(frozen=True, eq=False)
class SearchProblem:
    """Networks with their selection of variants, and how designs are scored.

    `batch` and `dtype` are the first ones of the specification, which the base has, where the search may choose among several.
    `fixed_runs`: the last networks, which are others at a batch size or in a dtype that brackets of a result name.
    `tolerance`: maximum loss of accuracy; `weights`: of networks in a geometric mean, 1 where none is given; `selections`: the indices of
    the networks of each result with brackets; `kernels`: fitted ones, where the model options need them; `name`: of the specification;
    `origin`: a hash that differs between searches whose designs have other scores, or are stored in another way; `spec_warnings`: about
    keys of the specification; `provenance`: the specification and hashes of all descriptions, as attributes of a dataset;
    `given_variants`: those of each network, in the place of the feasible ones.
    """

    networks: Networks
    batch: int
    dtype: OperandDtypes
    options: ModelOptions
    search: SearchSpec
    tolerance: AccuracyTolerance
    weights: Mapping[str, float] = field(default_factory=dict)
    selections: Mapping[str, Sequence[int]] = field(default_factory=dict)
    kernels: tuple[FittedRecord, ...] = ()
    name: str = "search"
    origin: str = ""
    spec_warnings: tuple[str, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    given_variants: Mapping[str, list[Variant]] | None = None
    fixed_runs: Mapping[str, FixedRun] = field(default_factory=dict)

    @cached_property
    def feasible_variants(self) -> dict[str, list[Variant]]:
        """The variants of each network within the tolerance, the dense one first."""
        if self.given_variants is not None:
            return dict(self.given_variants)
        own = {name: select_feasible(*self.networks[name], self.tolerance) for name in self.own_networks}
        return own | {name: own[run.network] for name, run in self.fixed_runs.items()}

    @property
    def own_networks(self) -> list[str]:
        """The names of the networks that run at the batch size and in the dtype of a design."""
        return [name for name in self.networks if name not in self.fixed_runs]

    def run_settings(self, network: str) -> tuple[int, OperandDtypes]:
        """The batch size and the dtype of a network."""
        run = self.fixed_runs.get(network)
        return (self.batch, self.dtype) if run is None else (run.settings.batch or self.batch, run.settings.dtype or self.dtype)

    @property
    def needs_energy(self) -> bool:
        """Whether an objective or a constraint depends on energy."""
        return bool({"energy", "edp"} & self.search.costs)

    @property
    def warnings(self) -> list[str]:
        """Warnings about keys of the specification and about variants that the search does not use."""
        excluded = (text for name, network in self._selections for text in list_excluded(name, *network))
        assumed = (text for name, network in self._selections for text in describe_assumptions(name, *network, self.tolerance))
        return [*self.spec_warnings, *excluded, *assumed]

    @property
    def _selections(self) -> Iterator[tuple[str, tuple[Workload, WorkloadSelection]]]:
        """Each network once, whichever its inputs, by its name in the results or, with several inputs, that of the workload."""
        by_selection: dict[int, list[str]] = {}
        for name in self.own_networks:
            by_selection.setdefault(id(self.networks[name][1]), []).append(name)
        for first, *others in by_selection.values():
            network = self.networks[first]
            yield (network[0].description.name if others else first), network


def load_problem(reference: catalog.Reference) -> tuple[Space, SearchProblem]:
    """Read the specification of a search, given by name, by path or as a mapping.

    Raises:
        InputError: with every problem of the specification and of the files that it names.
    """
    spec, document = read_sweep(catalog.resolve_specification(reference))
    problems, brackets = ProblemCollector(), Brackets()
    search = _check_spec(spec, document, problems)
    accelerators = load_accelerators(spec, document, problems)
    tolerance = search.tolerance(spec.accuracy_drop)
    networks = _load_networks(spec, tolerance, document, problems)
    if not problems.problems:
        _check_weights(spec, search, networks, document, problems)
        brackets = _select_networks(spec, search, networks, document, problems)
    accelerators = link_accelerators(spec, document, accelerators, problems)
    problems.raise_if_any()
    (accelerator,) = accelerators
    space = build_space(spec, document, accelerator)
    _check_costs(search, document, space, problems)
    _check_dtypes(spec, search, document, accelerator, networks, problems)
    problems.raise_if_any()
    with problems.collect(*document.locate(("model", "fidelity"))):
        kernels = _load_kernels(spec, document, accelerator)
    problems.raise_if_any()
    return space, SearchProblem(
        networks={**networks, **{name: networks[run.network] for name, run in brackets.fixed_runs.items()}},
        batch=spec.batch[0],
        dtype=spec.dtype[0],
        options=spec.model,
        search=search,
        tolerance=tolerance,
        weights=_network_weights(spec, search, networks),
        selections=brackets.selections,
        fixed_runs=brackets.fixed_runs,
        kernels=kernels,
        name=spec.name,
        origin=_hash_origin(spec, accelerator, networks, kernels),
        spec_warnings=_warn_of_spec(spec, document),
        provenance=_describe_provenance(spec, document, accelerator, networks, kernels),
    )


def _describe_provenance(
    spec: SweepSpec, document: YamlDocument, accelerator: Accelerator, networks: Networks, kernels: Sequence[FittedRecord]
) -> dict[str, str]:
    workloads = [workload for workload, _ in networks.values()]
    hashes = hash_descriptions([accelerator], workloads, {accelerator.name: kernels}, with_contents=bool(spec.loaded_workloads))
    return {
        "spec": document.text,
        "spec_path": str(document.path.resolve()),
        "spec_sha256": document.sha256,
        "description_sha256": json.dumps(hashes),
    }


def _check_spec(spec: SweepSpec, document: YamlDocument, problems: ProblemCollector) -> SearchSpec:
    """The search of a specification; raises InputError with every problem that shows without reading other files."""
    if spec.search is None:
        problems.add(document.make_problem((), "the specification has no 'search'", "add 'search: {maximize: [performance]}'"))
        problems.raise_if_any()
    assert spec.search is not None
    if (count := len(spec.accelerators)) > 1:
        problems.add(document.make_problem(("accelerators",), f"a search starts from one accelerator, not {count}", "keep one"))
    if not spec.free_axes:
        fix = "add an axis, as in 'memory.dram.bandwidth: {from: 1 TB/s, to: 8 TB/s}'"
        problems.add(document.make_problem(("axes",), "a search needs at least one axis", fix))
    problems.raise_if_any()
    return spec.search


def _check_costs(search: SearchSpec, document: YamlDocument, space: Space, problems: ProblemCollector) -> None:
    """Area, power and energy need a process that the cost model knows."""
    processes = {dimension.path: dimension.axis.values for dimension in space.dimensions if dimension.path == PROCESS_PATH}
    for design in (Design(space.accelerator), Design(space.accelerator, processes)) if search.costs else ():
        with problems.collect(*document.locate(("accelerators", 0))):
            check_process(design)


def _check_dtypes(
    spec: SweepSpec, search: SearchSpec, document: YamlDocument, accelerator: Accelerator, networks: Networks, problems: ProblemCollector
) -> None:
    """Each dtype, of the specification or in brackets of a result, needs a unit that computes in it and operands of whole blocks."""
    listed = {dtype: (("accelerators", 0), ("dtype", index)) for index, dtype in enumerate(spec.dtype)}
    locations = dict.fromkeys(search.named_dtypes, (("search",), ("search",))) | listed
    for dtype, (accelerator_location, dtype_location) in locations.items():
        with problems.collect(*document.locate(accelerator_location)):
            list_executions(accelerator, dtype, spec.model.fidelity)
        with problems.collect(*document.locate(dtype_location)):
            for workload, _ in networks.values():
                check_whole_blocks(workload.layers, dtype)


def _load_networks(spec: SweepSpec, tolerance: AccuracyTolerance, document: YamlDocument, problems: ProblemCollector) -> Networks:
    """The networks by their name in the results, each once for every combination of its inputs."""
    networks: dict[str, tuple[Workload, WorkloadSelection]] = {}
    for key, workload in load_workloads(spec, document, problems):
        selection, location = spec.workloads[key], ("workloads", key)
        name = workload.name if selection.inputs or workload.assumed else key
        if name in networks:
            message = f"another network is named '{name}' too"
            problems.add(document.make_problem(location, message, "rename one: results are labelled by names"))
        with problems.collect(*document.locate(location)):
            select_variants(workload, selection, document, location, problems)  # checks methods, sparsities and densities
            check_assumed_drops(workload, selection, tolerance.relative, document, location, problems)
        networks[name] = workload, selection
    return networks


def _check_weights(
    spec: SweepSpec, search: SearchSpec, networks: Iterable[str], document: YamlDocument, problems: ProblemCollector
) -> None:
    names = {*spec.workloads, *networks}
    for name in search.weights:
        if name not in names:
            message = f"'{name}' is not a workload of this search"
            problems.add(document.make_problem(("search", "weights", name), message, did_you_mean(name, names)))


def _network_weights(spec: SweepSpec, search: SearchSpec, networks: Networks) -> dict[str, float]:
    """The weight of each network: by its name, otherwise by the key of its workload."""
    keys = _workload_keys(spec, networks)
    return {name: search.weights.get(name, search.weights.get(key, 1.0)) for name, key in zip(networks, keys, strict=True)}


def _workload_keys(spec: SweepSpec, networks: Networks) -> list[str]:
    """The key of the workload of each network."""
    keys = {id(selection): key for key, selection in spec.workloads.items()}
    return [keys[id(selection)] for _, selection in networks.values()]


def _select_networks(
    spec: SweepSpec, search: SearchSpec, networks: Networks, document: YamlDocument, problems: ProblemCollector
) -> Brackets:
    """The networks of each result with brackets."""
    keys, selections, settings = _workload_keys(spec, networks), dict[str, list[int]](), dict[str, RunSettings]()
    workloads = {name: workload for name, (workload, _) in networks.items()}
    for kind in ("maximize", "minimize", "constraints"):
        for index, term in enumerate(getattr(search, kind)):
            expression = getattr(term, "expression", term)
            for name in expression.names if isinstance(expression, Expression) else ():
                with problems.collect(*document.locate(("search", kind, index))):
                    if split_brackets(name)[1] is not None:
                        selections[name] = select_networks(name, workloads, keys)
                        settings[name] = fixed_settings(spec, run_settings(name))
    return add_fixed_runs(list(networks), selections, settings)


def _load_kernels(spec: SweepSpec, document: YamlDocument, accelerator: Accelerator) -> tuple[FittedRecord, ...]:
    """The fitted kernels of the accelerator; raises InputError where an execution has none."""
    kernels = available_kernels(accelerator, spec.model, document.path.parent)
    for dtype in list_dtypes(spec) if kernels else ():
        for execution in list_executions(accelerator, dtype, spec.model.fidelity):
            select_kernels(execution, execution.pattern, accelerator, dtype.compute, kernels)
    return kernels


def _hash_origin(spec: SweepSpec, accelerator: Accelerator, networks: Networks, kernels: tuple[FittedRecord, ...]) -> str:
    excluded = {
        "search": IRRELEVANT_OPTIONS,
        "workloads": {"__all__": {"workload"}},
        **dict.fromkeys(UNREAD_KEYS, True),
        "description": True,
    }
    contents = [workload.contents_sha256() for workload, selection in networks.values() if selection.workload is not None]
    kernel_texts = [kernel.model_dump_json() for kernel in kernels]
    texts = (RULES_VERSION, spec.model_dump_json(exclude=excluded), accelerator.document.sha256, *contents, *kernel_texts)
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def _warn_of_spec(spec: SweepSpec, document: YamlDocument) -> tuple[str, ...]:
    """Warnings about keys of the specification that a search does not read, and about several dtypes."""
    unread = [key for key in UNREAD_KEYS if key in spec.model_fields_set]
    problems = [document.make_problem((key,), "a search does not read this", "remove it, or run 'dse sweep'") for key in unread]
    if len(list_dtypes(spec)) > 1:
        what = "accuracies do not depend on the dtype: what quantisation costs beyond pruning is not counted"
        problems.append(document.make_problem(("dtype",), what, "list dtypes in which the networks are known to be as accurate"))
    return tuple(map(str, problems))
