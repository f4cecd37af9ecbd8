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

from dse.errors import BadInput, UnfinishedError

if TYPE_CHECKING:
    from dse.accelerator import Accelerator
    from dse.accuracy import accuracy_curves
    from dse.explore.destination import sweep
    from dse.explore.iso import iso_speedup
    from dse.explore.layers import evaluate
    from dse.explore.pareto import pareto
    from dse.explore.search.run import search
    from dse.explore.sweep import ModelWarning
    from dse.workload import Workload

__all__ = [
    "BadInput", "ModelWarning", "UnfinishedError", "accuracy_curves", "evaluate", "iso_speedup", "load_accelerator", "load_workload",
    "pareto", "search", "sweep",
]  # fmt: skip

_LAZY = {
    "ModelWarning": "dse.explore.sweep",
    "accuracy_curves": "dse.accuracy",
    "evaluate": "dse.explore.layers",
    "iso_speedup": "dse.explore.iso",
    "pareto": "dse.explore.pareto",
    "search": "dse.explore.search.run",
    "sweep": "dse.explore.destination",
}


def load_accelerator(reference: str | Path | Mapping[str, Any]) -> "Accelerator":
    """An accelerator by its name in the catalogue or by path; raises BadInput."""
    from dse import accelerator, catalog

    return accelerator.load(catalog.accelerator(reference))


def load_workload(reference: str | Path, **inputs: Any) -> "Workload":
    """A workload by its name in the catalogue or by path of its folder; raises BadInput.

    `inputs` say what a network made by formulas is run on: `load_workload("llama-2-7b", phase="decode", sequence=4096)`.
    """
    from dse import catalog
    from dse.workload import tables

    return tables.load(catalog.find("workloads", reference), inputs)


def __getattr__(name: str) -> Any:
    """JAX takes a second to import: only when something is evaluated."""
    if name not in _LAZY:
        raise AttributeError(f"module 'dse' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
