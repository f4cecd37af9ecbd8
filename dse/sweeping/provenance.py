"""Where the numbers of a dataset come from, and the way back from a dataset to what it was made from."""

import datetime
import hashlib
import importlib.metadata
import json
import platform
import shlex
import sys
from functools import cache
from pathlib import Path

import jax
import xarray as xr

from dse.base.errors import InputError
from dse.base.yaml_document import YamlDocument, parse_document
from dse.model.cost.design import DRIVER
from dse.model.levels import levels
from dse.model.peak import executions
from dse.model.terms import rate_paths
from dse.schema.sweep import SweepSpec
from dse.sweeping.plan import Plan
from dse.sweeping.plan_builder import build_plan

IN_MEMORY = " in memory"  # ends the name of the contents of a workload, which may differ from those of its folder
DECISIVE = ("sparse-dse", "jax", "numpy")  # packages whose version may change a number


def attributes(plan: Plan) -> dict[str, str]:
    """Where the numbers come from; netCDF takes text, so the rest is JSON."""
    return {
        "title": plan.spec.name,
        "spec": plan.document.text,
        "spec_path": str(plan.document.path.resolve()),
        "spec_sha256": plan.document.sha256,
        "description_sha256": json.dumps(hashes(plan)),
        "metrics": json.dumps({w.name: {name: m.model_dump() for name, m in w.description.metrics.items()} for w in plan.workloads}),
        "run_on": json.dumps({w.name: w.all_inputs for w in plan.workloads if w.all_inputs}),
        "unverified": json.dumps(unverified(plan)),
        "versions": json.dumps(versions()),
        "seed": "none (deterministic)",
        "device": f"{jax.devices()[0].device_kind}, {platform.machine()}",
        "command": shlex.join(sys.argv),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


@cache
def versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in (*DECISIVE, "xarray")}


def unverified(plan: Plan) -> dict[str, list[str]]:
    """Numbers and runs that the model uses, but that were not read at their source, by accelerator."""
    found = {}
    for accelerator in plan.accelerators:
        listed = [e for dtype in plan.spec.dtype for e in executions(accelerator, dtype, plan.spec.model.fidelity)]
        inside = {level.inside for level in levels(accelerator, plan.spec.model.fidelity)}
        used = rate_paths(listed) | inside | {f"units.{execution.unit}.runs.{execution.run}" for execution in listed}
        if plan.spec.model.fidelity == "calibrated":
            used |= {f"units.{e.unit}.{number}" for e in listed for number in ("processors", "scratchpad", "issue")} | {"overhead.launch"}
        costly = plan.spec.store.cost_variables
        found[accelerator.name] = [path for path in accelerator.unverified() if path in used or (costly and DRIVER.fullmatch(path))]
    return {name: paths for name, paths in found.items() if paths}


def specification(dataset: xr.Dataset) -> SweepSpec:
    """The specification that a dataset was made from; raises InputError if it holds none."""
    return _document(dataset).validate(SweepSpec)


def plan_of(dataset: xr.Dataset) -> Plan:
    """The plan that a dataset was made from, its descriptions read again; raises InputError if they changed since."""
    document = _document(dataset)
    plan = build_plan(document.validate(SweepSpec), document)
    _check_descriptions(dataset, plan, "run 'dse sweep' again")
    return plan


def check_same(dataset: xr.Dataset, plan: Plan) -> None:
    """Raises InputError unless going on with `dataset` gives what evaluating `plan` does."""
    elsewhere = "give another place, or remove it"
    if dataset.attrs.get("spec_sha256") != plan.document.sha256:
        raise InputError("the dataset was made from another specification", elsewhere)
    _check_descriptions(dataset, plan, elsewhere)
    before, now = json.loads(dataset.attrs["versions"]), versions()
    if changed := [f"{name} {before.get(name)} (now {now[name]})" for name in DECISIVE if before.get(name) != now[name]]:
        raise InputError(f"the dataset was begun with {', '.join(changed)}", f"install what it was begun with, or {elsewhere}")


def _check_descriptions(dataset: xr.Dataset, plan: Plan, fix: str) -> None:
    before = json.loads(dataset.attrs["description_sha256"])
    now = hashes(plan, contents=any(name.endswith(IN_MEMORY) for name in before))
    if changed := sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name)):
        raise InputError(f"changed since the dataset was made: {', '.join(changed)}", fix)


def _document(dataset: xr.Dataset) -> YamlDocument:
    if "spec" not in dataset.attrs or "spec_path" not in dataset.attrs:
        raise InputError("the dataset does not say what it was made from", "give one that 'dse sweep' wrote")
    return parse_document(Path(dataset.attrs["spec_path"]), dataset.attrs["spec"])


def hashes(plan: Plan, contents: bool = False) -> dict[str, str]:
    """SHA-256 of every description read; where workloads were given as objects, or on request, of the contents of all workloads, too."""
    found = {f"accelerator {a.name}": a.document.sha256 for a in plan.accelerators}
    for accelerator, kernels in zip(plan.accelerators, plan.fitted_kernels, strict=True):
        if kernels:
            text = "".join(kernel.model_dump_json() for kernel in kernels)
            found[f"kernels {accelerator.name}"] = hashlib.sha256(text.encode()).hexdigest()
    if contents or plan.spec.loaded_workloads:
        found |= {f"workload {workload.name}{IN_MEMORY}": workload.contents_sha256() for workload in plan.workloads}
    return found | {f"workload {w.name} {file}": sha for w in plan.workloads for file, sha in w.files.items()}
