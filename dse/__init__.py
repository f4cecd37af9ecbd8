"""Design-space exploration of sparse neural-network hardware.

Describe accelerators in YAML, take networks that were really pruned, and evaluate rooflines of millions of hardware designs.

Load descriptions
    load_accelerator    Load an accelerator by its name in the catalogue, by path or from a mapping.
    load_workload       Load a network and its pruned variants by its name in the catalogue or by path.

Evaluate
    evaluate            Evaluate one network on one accelerator, layer by layer.
    sweep               Evaluate every design of a sweep specification on every network.
    search              Search the designs of a specification for the best ones within constraints.

Analyse results
    pareto              Select the Pareto front of a sweep.
    iso_speedup         Compute the best speedup within a tolerated loss of accuracy.
    pattern_shares      Return how often each pattern is the best over samples of uncertain accuracies.
    accuracy_curves     Return the measured curves of accuracy against sparsity of a workload.
    explain             Explain why two designs or networks differ, or why a sparse network is not as fast as its pattern allows.

Classes
    Accelerator         A hardware description: compute units, memory levels, overhead and cost.
    Workload            A network: its layers, its pruned variants and their accuracies.
    Variant             A network pruned to some sparsity: the density of each layer and, where measured, its accuracy.

Results of a sweep have these as methods of the xarray accessor `dse`: `results.dse.best()`, `.show()`, `.pareto()`, `.explain()`,
`.plot.roofline()`.

Errors and warnings
    InputError          Invalid input; lists every problem with file, line and fix.
    InfeasibleError     No design meets every constraint of a search.
    UnfinishedError     Work stopped early, as by a full disk; what was written is kept.
    ModelWarning        A property of the results that a reader should know.

Start with

>>> import dse
>>> a100 = dse.load_accelerator("a100-sxm4-80gb")
>>> resnet = dse.load_workload("resnet50")
>>> layers = dse.evaluate(a100, resnet.variant("magnitude_pruning", sparsity=0.9), batch=1, dtype="fp16")

The names above and those of `dse.sparsity` are the public interface. All other packages below `dse` may change in any release.
"""

import importlib
from typing import TYPE_CHECKING

from dse.base.import_hook import when_imported

if TYPE_CHECKING:
    from xarray import Dataset

    from dse.base.errors import InfeasibleError, InputError, UnfinishedError
    from dse.explaining.explain import explain
    from dse.model.evaluate import evaluate
    from dse.plot.accessor import ResultsAccessor
    from dse.schema.accelerator import Accelerator
    from dse.schema.references import load_accelerator, load_workload
    from dse.searching.run import search
    from dse.sweeping.iso_speedup import iso_speedup, pattern_shares
    from dse.sweeping.model_warnings import ModelWarning
    from dse.sweeping.pareto import pareto
    from dse.sweeping.sweep import sweep
    from dse.workload import Variant, Workload
    from dse.workload.accuracy import accuracy_curves

    __version__: str

_MODULES = {
    "Accelerator": "dse.schema.accelerator",
    "InfeasibleError": "dse.base.errors",
    "InputError": "dse.base.errors",
    "ModelWarning": "dse.sweeping.model_warnings",
    "UnfinishedError": "dse.base.errors",
    "Variant": "dse.workload",
    "Workload": "dse.workload",
    "accuracy_curves": "dse.workload.accuracy",
    "evaluate": "dse.model.evaluate",
    "explain": "dse.explaining.explain",
    "iso_speedup": "dse.sweeping.iso_speedup",
    "load_accelerator": "dse.schema.references",
    "load_workload": "dse.schema.references",
    "pareto": "dse.sweeping.pareto",
    "pattern_shares": "dse.sweeping.iso_speedup",
    "search": "dse.searching.run",
    "sweep": "dse.sweeping.sweep",
}

__all__ = [
    "Accelerator", "InfeasibleError", "InputError", "ModelWarning", "UnfinishedError", "Variant", "Workload", "__version__",
    "accuracy_curves", "evaluate", "explain", "iso_speedup", "load_accelerator", "load_workload", "pareto",
    "pattern_shares", "search", "sweep",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: JAX alone takes more than a second to import."""
    if name == "__version__":
        from importlib.metadata import version

        return version("sparse-dse")
    if name not in _MODULES:
        raise AttributeError(f"module 'dse' has no attribute '{name}'")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def _make_accessor(dataset: "Dataset") -> "ResultsAccessor":
    """`results.dse`."""
    from dse.plot.accessor import ResultsAccessor

    return ResultsAccessor(dataset)


def _register_accessor() -> None:
    import xarray

    if not hasattr(xarray.Dataset, "dse"):
        xarray.register_dataset_accessor("dse")(_make_accessor)


when_imported("xarray", _register_accessor)  # xarray alone takes half a second to import
