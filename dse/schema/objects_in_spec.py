"""Replace `Accelerator` and `Workload` objects in a specification by their descriptions, so that it can be validated and stored."""

from collections.abc import Mapping
from typing import Any

from dse.base.errors import InputError
from dse.schema.accelerator import Accelerator
from dse.workload import Workload


def replace_objects(spec: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Workload]]:
    """Replace objects by descriptions; returns the specification, and the workloads by the keys of their descriptions.

    The description of an accelerator is complete. That of a workload names its folder and inputs; the object itself is evaluated, and a
    hash of its contents is stored with the results. Raises InputError if two workloads have the same key.
    """
    described, workloads = dict(spec), dict[str, Workload]()
    if isinstance(listed := spec.get("accelerators"), list | tuple):
        described["accelerators"] = [item.to_dict() if isinstance(item, Accelerator) else item for item in listed]
    listed = spec.get("workloads")
    entries = list(listed.items()) if isinstance(listed, Mapping) else [split_workload_item(item) for item in listed or ()]
    if any(_workload_object(key, selection) for key, selection in entries):
        described["workloads"] = {}
        for key, selection in entries:
            _add_workload(key, selection, described["workloads"], workloads)
    return described, workloads


def split_workload_item(item: Any) -> tuple[Any, Any]:
    """Split an item of a list of workloads (a reference, a selection with `workload`, or a description) into its key and selection."""
    if not isinstance(item, Mapping):
        return item, {}
    selection = item if "workload" in item else {"workload": item}
    reference = selection["workload"]
    return reference.get("name") if isinstance(reference, Mapping) else reference, selection


def _workload_object(key: object, selection: object) -> Workload | None:
    """The workload that is the key itself or the `workload` of a selection; None if that is a name, a path or a mapping."""
    reference = key if isinstance(key, Workload) else selection.get("workload") if isinstance(selection, Mapping) else None
    return reference if isinstance(reference, Workload) else None


def _add_workload(key: Any, selection: Any, described: dict[str, Any], workloads: dict[str, Workload]) -> None:
    """Add a workload to the described ones and, if it is an object, to the loaded ones; raises InputError."""
    workload = _workload_object(key, selection)
    name = key.name if isinstance(key, Workload) else key
    if name in described:
        raise InputError(f"two workloads are named '{name}'", "load one of them with other inputs, or list it once", key="workloads")
    described[name] = selection
    if workload is None:
        return
    if "inputs" in (options := dict(selection or {})):
        fix = "give its name or path instead of the object"
        raise InputError("the inputs of a loaded workload are fixed", fix, key=f"workloads.{name}")
    workloads[name] = workload
    options["workload"] = str(workload.folder.resolve()) if workload.mapping is None else workload.mapping
    described[name] = options | ({"inputs": dict(workload.inputs)} if workload.inputs else {})
