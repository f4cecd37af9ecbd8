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


def _check_type(reference: Any, what: str, class_name: str) -> None:
    if not isinstance(reference, str | Path | Mapping):
        message = f"'{type(reference).__name__}' is not the type of {what}"
        raise InputError(message, f"give a name of the catalogue, a path, a mapping or {class_name}")


def workload_entry(item: Any) -> tuple[Any, Any]:
    """An item of a list of workloads (a reference, a selection with `workload`, or a description) as its key and its selection."""
    if not isinstance(item, Mapping):
        return item, {}
    selection = item if "workload" in item else {"workload": item}
    reference = selection["workload"]
    return reference.get("name") if isinstance(reference, Mapping) else reference, selection


def separate_objects(spec: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Workload]]:
    """A specification in which descriptions stand for accelerators and workloads, and its workloads by the key of their description.

    The description of an accelerator is complete. That of a workload has its folder and inputs; the object itself is evaluated, and a
    hash of its contents belongs to the provenance of the results. Raises InputError where two workloads have one key.
    """
    described, workloads = dict(spec), dict[str, Workload]()
    if isinstance(listed := spec.get("accelerators"), list | tuple):
        described["accelerators"] = [_describe_accelerator(item) for item in listed]
    listed = spec.get("workloads")
    pairs = list(listed.items()) if isinstance(listed, Mapping) else [workload_entry(item) for item in listed or ()]
    if any(_workload_object(key, selection) for key, selection in pairs):
        described["workloads"] = {}
        for key, selection in pairs:
            _describe_workload(key, selection, described["workloads"], workloads)
    return described, workloads


def _describe_accelerator(item: Any) -> Any:
    """The description of an accelerator; anything else is returned unchanged."""
    return item.to_dict() if isinstance(item, Accelerator) else item


def _workload_object(key: Any, selection: Any) -> Workload | None:
    """The workload that is a key itself or the `workload` of a selection; None where that is a name, a path or a mapping."""
    reference = key if isinstance(key, Workload) else selection.get("workload") if isinstance(selection, Mapping) else None
    return reference if isinstance(reference, Workload) else None


def _describe_workload(key: Any, selection: Any, described: dict[str, Any], workloads: dict[str, Workload]) -> None:
    """Add one workload to a specification, and to the loaded workloads if it is one; raises InputError."""
    workload = _workload_object(key, selection)
    name = key.name if isinstance(key, Workload) else key
    if name in described:
        raise InputError(f"two workloads are named '{name}'", "load one of them with other inputs, or list it once", key="workloads")
    described[name] = selection
    if workload is None:
        return
    if "inputs" in (options := dict(selection or {})):
        raise InputError(
            "the inputs of a loaded workload are fixed", "give its name or path instead of the object", key=f"workloads.{name}"
        )
    workloads[name] = workload
    options["workload"] = str(workload.folder.resolve()) if workload.mapping is None else workload.mapping
    described[name] = options | ({"inputs": dict(workload.inputs)} if workload.inputs else {})
