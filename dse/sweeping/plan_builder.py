"""Build the plan of a sweep: read everything that the specification names, resolve its axes, and report all errors at once."""

from dataclasses import dataclass, field, replace

from dse.base import catalog
from dse.base.errors import ProblemCollector
from dse.base.progress import progress_bar
from dse.base.yaml_document import YamlDocument
from dse.model.efficiency.fitted import LAUNCH_LATENCY, slowdown_paths
from dse.model.efficiency.kernel_file import KernelRecord
from dse.model.efficiency.kernel_selection import available_kernels
from dse.model.executions import list_executions
from dse.model.memory_levels import capacity_paths
from dse.model.rates import rate_paths
from dse.schema.accelerator import Accelerator
from dse.schema.sweep import SweepSpec, read_sweep
from dse.sweeping.axis import Axis, mark_rate_axes, parse_axis
from dse.sweeping.descriptions import load_accelerators, load_workloads
from dse.sweeping.plan import Plan
from dse.sweeping.plan_checks import check_designs, check_plan
from dse.sweeping.variants import select_variants
from dse.workload import Variant, Workload


def load_plan(reference: catalog.Reference) -> Plan:
    """Read a sweep, given by name, by path or as a mapping, with all files that it names; raises InputError with every problem."""
    return build_plan(*read_sweep(catalog.resolve_specification(reference)))


def build_plan(spec: SweepSpec, document: YamlDocument, progress: bool = False) -> Plan:
    """Read and check everything that a specification names; raises InputError with every problem."""
    reader = _SpecReader(spec.with_stored_variables(), document)
    accelerators = load_accelerators(reader.spec, document, reader.problems)
    workloads = load_workloads(reader.spec, document, reader.problems, progress)
    reader.problems.raise_if_any()
    variants = reader.select_variants(workloads, progress)
    reader.check_executions(accelerators)
    kernels, axes = reader.read_kernels(accelerators), reader.parse_axes(accelerators)
    networks = tuple(workload for _, workload in workloads)
    plan = Plan(reader.spec, document, tuple(accelerators), networks, tuple(variants), tuple(axes), tuple(kernels))
    check_plan(plan, reader.problems)
    reader.problems.raise_if_any()
    check_designs(plan, reader.problems)
    reader.problems.raise_if_any()
    return replace(plan, axes=mark_rate_axes(axes, _rate_paths(plan)))


@dataclass
class _SpecReader:
    """Read what a specification names; collect the problems instead of stopping at the first one."""

    spec: SweepSpec
    document: YamlDocument
    problems: ProblemCollector = field(default_factory=ProblemCollector)

    def select_variants(self, workloads: list[tuple[str, Workload]], progress: bool) -> list[Variant]:
        variants: list[Variant] = []
        with progress_bar("selecting variants", len(workloads), progress) as advance:
            for key, workload in workloads:
                variants += select_variants(workload, self.spec.workloads[key], self.document, ("workloads", key), self.problems)
                advance()
        return variants

    def check_executions(self, accelerators: list[Accelerator]) -> None:
        """Check that every accelerator computes in every dtype."""
        for index, dtype in enumerate(self.spec.dtype):
            for accelerator in accelerators:
                with self.problems.collect(*self.document.locate(("dtype", index))):
                    list_executions(accelerator, dtype, self.spec.model.fidelity)

    def read_kernels(self, accelerators: list[Accelerator]) -> list[tuple[KernelRecord, ...]]:
        """The fitted kernels of each accelerator; most fidelities need none."""
        kernels = []
        for accelerator in accelerators:
            with self.problems.collect(*self.document.locate(("model", "efficiencies"))):
                kernels.append(available_kernels(accelerator, self.spec.model, self.document.path.parent))
        return kernels

    def parse_axes(self, accelerators: list[Accelerator]) -> list[Axis]:
        """The axes, with the roles that follow from the fidelity; rate axes are marked once the designs are known."""
        tabulated = {path for accelerator in accelerators for path in self._tabulated_paths(accelerator)}
        axes: list[Axis] = []
        for path, written in self.spec.axes.items():
            with self.problems.collect(*self.document.locate(("axes", path))):
                axis = parse_axis(path, written, accelerators)
                axes.append(replace(axis, role="tabulated") if path in tabulated else axis)
        return axes

    def _tabulated_paths(self, accelerator: Accelerator) -> list[str]:
        """Paths of numbers that are not factors of a rate, but that the latency depends on.

        These are the capacities on chip and, with fidelity `calibrated`, what the tiles, instructions and launches of kernels depend on.
        """
        fidelity = self.spec.model.fidelity
        kernel_paths = [*slowdown_paths(accelerator, self.spec.dtype, self.spec.axes), LAUNCH_LATENCY] if fidelity == "calibrated" else []
        return capacity_paths(accelerator, fidelity) + kernel_paths


def _rate_paths(plan: Plan) -> set[str]:
    """Paths that the rates of any design depend on. All categorical designs count: a run may be enabled in one of them only."""
    paths: set[str] = set()
    for _, accelerator in plan.categorical_designs():
        for _, _, dtype in plan.batches_and_dtypes():
            paths |= rate_paths(list_executions(accelerator, dtype, plan.spec.model.fidelity))
    return paths
