"""Load an accelerator or a workload from what a user gives for it: a name of the catalogue, a path, a mapping or an object."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dse.base import catalog
from dse.schema.accelerator import Accelerator, read_accelerator
from dse.workload import Workload, tables


def load_accelerator(reference: str | Path | Mapping[str, Any] | Accelerator) -> Accelerator:
    """Load an accelerator by its name in the catalogue, by path or from a mapping.

    Args:
        reference: a name of the catalogue (`dse list accelerators` shows them), the path of a YAML file, a mapping with the keys of such
            a file, or an accelerator, which is returned as it is.

    Raises:
        InputError: the description is missing or invalid; lists every problem with file, line and fix.

    Examples:
        >>> import dse
        >>> a100 = dse.load_accelerator("a100-sxm4-80gb")
        >>> a100.value("memory.dram.bandwidth")  # in SI units: B/s
        2039000000000.0
    """
    if isinstance(reference, Accelerator):
        return reference
    return read_accelerator(catalog.resolve_accelerator(reference))


def load_workload(reference: str | Path, **inputs: Any) -> Workload:
    """Load a network and its pruned variants by its name in the catalogue or by path.

    Args:
        reference: a name of the catalogue (`dse list workloads` shows them), or the path of a workload folder.
        inputs: what the network is run on, where formulas make its layers: `phase`, `sequence` and the like. Default: the inputs that
            the description gives.

    Raises:
        InputError: the workload is missing or invalid; lists every problem with file, line and fix.

    Examples:
        >>> import dse
        >>> resnet = dse.load_workload("resnet50")
        >>> pruned = resnet.variant("magnitude_pruning", sparsity=0.9)
        >>> round(pruned.sparsity, 3)
        0.9
        >>> llama = dse.load_workload("llama-2-7b", phase="decode", sequence=4096)
        >>> llama.name
        'llama-2-7b (phase=decode, sequence=4096)'
    """
    return tables.load(catalog.find_path("workloads", reference), inputs)
