"""What a search asks: the specification read and checked, every problem told at once. Nothing is evaluated, so that it answers soon."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from dse import accelerator as accelerators
from dse import catalog
from dse import spec as specs
from dse.accelerator import Accelerator
from dse.calibrate.choice import choose, kernels_of
from dse.calibrate.efficiencies import FittedKernel
from dse.document import Document
from dse.dtype import Dtype
from dse.errors import Collector, suggestion
from dse.explore.search import space
from dse.explore.search.space import Space
from dse.explore.search.states import tolerated
from dse.goal import Search
from dse.model.options import ModelOptions
from dse.model.peak import executions
from dse.spec import Selection, Spec
from dse.workload import Variant, Workload, tables


@dataclass(frozen=True, eq=False)
class Question:
    """Networks, which of their methods may be run, and how designs are judged; `kernels`: measured ones, where the options ask for them.

    `origin`: tells questions apart whose designs are not worth the same, or not written the same.
    """

    networks: Mapping[str, tuple[Workload, Selection]]
    batch: int
    dtype: Dtype
    options: ModelOptions
    search: Search
    kernels: tuple[FittedKernel, ...] = ()
    origin: str = ""

    @cached_property
    def states(self) -> dict[str, list[Variant]]:
        """What each network may run within the tolerated loss, the dense state first."""
        return {name: tolerated(*network, self.search.drop) for name, network in self.networks.items()}


def load(reference: catalog.Given) -> tuple[Space, Question]:
    """What may vary and what is asked of it, by name or path of a specification, or as a mapping; raises BadInput with every problem."""
    written, document = specs.load(catalog.specification(reference))
    problems = Collector()
    _check(written, document, problems)
    problems.raise_all()
    with problems.at(*document.place(("accelerators", 0))):
        base = accelerators.load(catalog.find("accel_models", written.accelerators[0], document.path.parent))
    networks = _networks(written, document, problems)
    problems.raise_all()
    found = space.load(written, document, base)
    assert written.search is not None
    with problems.at(*document.place(("accelerators", 0))):
        executions(base, written.dtype[0], written.model.fidelity)
    problems.raise_all()
    with problems.at(*document.place(("model", "fidelity"))):
        kernels = _kernels(written, document, base)
    problems.raise_all()
    asked = written.model_dump_json(exclude={"search": {"trials", "ask_batch", "sampler", "seed", "polish"}, "plots": True, "store": True})
    told = "".join((asked, base.document.sha256, *(kernel.model_dump_json() for kernel in kernels)))
    origin = hashlib.sha256(told.encode()).hexdigest()
    return found, Question(networks, written.batch[0], written.dtype[0], written.model, written.search, kernels, origin)


def _check(written: Spec, document: Document, problems: Collector) -> None:
    if written.search is None:
        problems.add(document.problem((), "the specification has no 'search'", "add 'search: {maximize: [performance]}'"))
        return
    for key, count in (("accelerators", len(written.accelerators)), ("batch", len(written.batch)), ("dtype", len(written.dtype))):
        if count > 1:
            problems.add(document.problem((key,), f"a search starts from one of '{key}', not {count}", "keep one"))
    if not written.axes:
        problems.add(
            document.problem(("axes",), "nothing varies", "add an axis, as in 'memory.dram.bandwidth: {from: 1 TB/s, to: 8 TB/s}'")
        )
    if "cost.process" in written.axes and {"energy", "edp"} & written.search.costs:
        what = "energy follows a process that is given, not one that varies"
        problems.add(document.problem(("axes", "cost.process"), what, "search at one process, or leave 'energy' and 'edp' out"))
    for name in written.search.weights:
        if name not in written.workloads:
            fix = suggestion(name, written.workloads)
            problems.add(document.problem(("search", "weights", name), f"'{name}' is no workload of this search", fix))


def _kernels(written: Spec, document: Document, base: Accelerator) -> tuple[FittedKernel, ...]:
    """Those that stand for the executions of the accelerator; raises BadInput where there are none for one."""
    kernels, dtype = kernels_of(base, written.model, document.path.parent), written.dtype[0]
    for execution in executions(base, dtype, written.model.fidelity) if kernels else ():
        choose(execution, execution.pattern, base, dtype.compute, kernels)
    return kernels


def _networks(written: Spec, document: Document, problems: Collector) -> dict[str, tuple[Workload, Selection]]:
    found: dict[str, tuple[Workload, Selection]] = {}
    for reference, selection in written.workloads.items():
        with problems.at(*document.place(("workloads", reference))):
            folder = catalog.find("workloads", reference, document.path.parent)
            for inputs in selection.combinations():
                workload = tables.load(folder, inputs)
                found[workload.name if inputs else reference] = workload, selection
    return found
