"""sparse-dse: design-space exploration of sparse neural-network hardware.

import dse
a100 = dse.load_accelerator("a100-sxm4-80gb")
resnet = dse.load_workload("resnet50")
layers = dse.evaluate(a100, resnet.variant("magnitude_pruning", sparsity=0.9), batch=1, dtype="fp16")
results = dse.sweep("sparsity_roofline")
front = dse.pareto(results.sel(batch=32), maximize=["speedup", "accuracy"])
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dse.base.errors import InputError, UnfinishedError

if TYPE_CHECKING:
    from dse.model.layer_results import evaluate
    from dse.schema.accelerator import Accelerator
    from dse.searching.run import search
    from dse.sweeping.destination import sweep
    from dse.sweeping.iso_speedup import iso_speedup
    from dse.sweeping.pareto import pareto
    from dse.sweeping.run import ModelWarning
    from dse.workload import Workload
    from dse.workload.accuracy import accuracy_curves

__all__ = [
    "InputError", "ModelWarning", "UnfinishedError", "accuracy_curves", "evaluate", "iso_speedup", "load_accelerator", "load_workload",
    "pareto", "search", "sweep",
]  # fmt: skip

_LAZY = {
    "ModelWarning": "dse.sweeping.run",
    "accuracy_curves": "dse.workload.accuracy",
    "evaluate": "dse.model.layer_results",
    "iso_speedup": "dse.sweeping.iso_speedup",
    "pareto": "dse.sweeping.pareto",
    "search": "dse.searching.run",
    "sweep": "dse.sweeping.destination",
}


def load_accelerator(reference: str | Path | Mapping[str, Any]) -> "Accelerator":
    """An accelerator by its name in the catalogue or by path; raises InputError."""
    from dse.base import catalog
    from dse.schema import accelerator

    return accelerator.load(catalog.resolve_accelerator(reference))


def load_workload(reference: str | Path, **inputs: Any) -> "Workload":
    """A workload by its name in the catalogue or by path of its folder; raises InputError.

    `inputs` say what a network made by formulas is run on: `load_workload("llama-2-7b", phase="decode", sequence=4096)`.
    """
    from dse.base import catalog
    from dse.workload import tables

    return tables.load(catalog.find_path("workloads", reference), inputs)


def __getattr__(name: str) -> Any:
    """JAX takes a second to import: only when something is evaluated."""
    if name not in _LAZY:
        raise AttributeError(f"module 'dse' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
