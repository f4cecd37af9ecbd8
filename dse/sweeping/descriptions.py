"""Load the accelerators and workloads that a specification names, describes or holds as objects, and hash what was loaded."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dse.base import catalog
from dse.base.errors import ProblemCollector
from dse.base.progress import progress_bar
from dse.base.strict_model import KeyPath
from dse.base.yaml_document import YamlDocument
from dse.model.efficiency.efficiency_file import FittedRecord
from dse.schema.accelerator import Accelerator, read_accelerator
from dse.schema.references import split_workload_item
from dse.schema.sweep import SweepSpec
from dse.schema.workload_selection import WorkloadSelection
from dse.workload import Workload, tables

CONTENTS_SUFFIX = " in memory"  # of the name of a workload's contents, which may differ from those of its folder


def load_accelerators(spec: SweepSpec, document: YamlDocument, problems: ProblemCollector) -> list[Accelerator]:
    """The accelerators of a specification, without those that have problems."""
    loaded: list[Accelerator] = []
    for index, reference in enumerate(spec.accelerators):
        with problems.collect(*document.locate(("accelerators", index))):
            if isinstance(reference, str):
                loaded.append(read_accelerator(catalog.find_path("accel_models", reference, document.path.parent)))
            else:
                loaded.append(Accelerator.from_document(document.section(("accelerators", index))))
    return loaded


def load_workloads(
    spec: SweepSpec, document: YamlDocument, problems: ProblemCollector, progress: bool = False
) -> list[tuple[str, Workload]]:
    """The workloads of a specification with their keys: each once for every combination of its inputs."""
    loaded: list[tuple[str, Workload]] = []
    total = sum(len(selection.input_combinations()) for selection in spec.workloads.values())
    with progress_bar("reading networks", total, progress) as advance:
        for key, selection in spec.workloads.items():
            for inputs in selection.input_combinations():
                with problems.collect(*document.locate(("workloads", key))):
                    workload = _load_workload(key, selection, inputs, spec, document)
                    loaded += [(key, each) for each in _with_densities(workload, selection.activation_density)]
                    advance()
    return loaded


def _with_densities(workload: Workload, densities: Sequence[float]) -> list[Workload]:
    """The network with each of the assumed densities of activations, which are part of its name where there are several."""
    if not densities:
        return [workload]
    assumed = [workload.with_activation_density(density) for density in densities]
    return (
        assumed
        if len(assumed) == 1
        else [each.with_assumed(activation_density=density) for each, density in zip(assumed, densities, strict=True)]
    )


def _load_workload(key: str, selection: WorkloadSelection, inputs: dict[str, object], spec: SweepSpec, document: YamlDocument) -> Workload:
    if key in spec.loaded_workloads:
        return spec.loaded_workloads[key]
    if isinstance(selection.workload, dict):
        return tables.load_mapping(document.section(_description_location(key, document)), inputs)
    return tables.load(catalog.find_path("workloads", selection.workload or key, document.path.parent), inputs)


def _description_location(key: str, document: YamlDocument) -> KeyPath:
    """Path of a workload's description in the document: below its key, or in a list, with or without a selection around it."""
    listed = document.data["workloads"]
    item: Any = [split_workload_item(item)[0] for item in listed].index(key) if isinstance(listed, list) else key
    return ("workloads", item, "workload") if "workload" in listed[item] else ("workloads", item)


def hash_descriptions(
    accelerators: Iterable[Accelerator], workloads: Sequence[Workload], kernels: Mapping[str, Sequence[FittedRecord]], with_contents: bool
) -> dict[str, str]:
    """SHA-256 of accelerators, workload files and the fitted kernels of each accelerator, and of the contents of workloads on request."""
    hashes = {f"accelerator {accelerator.name}": accelerator.document.sha256 for accelerator in accelerators}
    for name, chosen in kernels.items():
        if chosen:
            text = "".join(kernel.model_dump_json() for kernel in chosen)
            hashes[f"kernels {name}"] = hashlib.sha256(text.encode()).hexdigest()
    if with_contents:
        hashes |= {f"workload {workload.name}{CONTENTS_SUFFIX}": workload.contents_sha256() for workload in workloads}
    return hashes | {f"workload {workload.name} {file}": sha256 for workload in workloads for file, sha256 in workload.files.items()}
