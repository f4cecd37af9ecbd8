"""Load an accelerator or a workload from what a user gives for it: a name of the catalogue, a path, a mapping or an object."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dse.base import catalog
from dse.base.errors import InputError
from dse.base.yaml_document import load_document
from dse.schema.accelerator import Accelerator, read_accelerator
from dse.workload import Workload, tables


def load_accelerator(reference: str | Path | Mapping[str, Any] | Accelerator) -> Accelerator:
    """Load an accelerator by its name in the catalogue, by path or from a mapping.

    Args:
        reference: a name of the catalogue (`dse list accelerators` shows them), the path of a YAML file, a mapping with the keys of such
            a file, or an accelerator, which is returned unchanged.

    Returns:
        The validated description. Its quantities are in SI base units.

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
    _check_type(reference, "an accelerator", "an Accelerator")
    return read_accelerator(catalog.resolve_accelerator(reference))


def load_workload(reference: str | Path | Mapping[str, Any] | Workload, **inputs: Any) -> Workload:
    """Load a network and its pruned variants by its name in the catalogue or by path.

    Args:
        reference: a name of the catalogue (`dse list workloads` shows them), the path of a workload folder, a mapping with the keys of
            a workload.yaml whose `network` describes the layers, or a workload, which is returned unchanged.
        inputs: what the network is run on, where formulas make its layers: `phase`, `sequence` and the like. Default: the inputs that
            the description gives.

    Returns:
        The network with its layers, variants and accuracies.

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
    if isinstance(reference, Workload):
        if inputs:
            raise InputError(f"'{reference.name}' is loaded, so its inputs are fixed", "give them with its name or path")
        return reference
    _check_type(reference, "a workload", "a Workload")
    if isinstance(reference, Mapping):
        return tables.load_mapping(load_document(reference), inputs)
    return tables.load(catalog.find_path("workloads", reference), inputs)


def _check_type(reference: object, what: str, class_name: str) -> None:
    """Raise InputError unless a reference is text, a path or a mapping."""
    if not isinstance(reference, str | Path | Mapping):
        message = f"'{type(reference).__name__}' is not the type of {what}"
        raise InputError(message, f"give a name of the catalogue, a path, a mapping or {class_name}")
