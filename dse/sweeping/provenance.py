"""The provenance of a dataset: the inputs that it was computed from, as attributes, and the plan rebuilt from them."""

import datetime
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
from dse.model.cost.design import COST_PATH
from dse.model.efficiency.device_rates import UNIT_NUMBERS
from dse.model.efficiency.fitted import LAUNCH_LATENCY, POWER_LIMIT
from dse.model.executions import list_executions
from dse.model.host_time import HOST_PATHS
from dse.model.memory_levels import memory_levels
from dse.model.rates import rate_paths
from dse.schema.accelerator import Accelerator
from dse.schema.sweep import SweepSpec
from dse.sweeping.descriptions import CONTENTS_SUFFIX, hash_descriptions
from dse.sweeping.plan import Plan
from dse.sweeping.plan_builder import build_plan

DECISIVE_PACKAGES = ("sparse-dse", "jax", "numpy")  # their version may change a number


def attributes(plan: Plan) -> dict[str, str]:
    """Attributes of a dataset; netCDF takes text, so everything else is JSON."""
    return {
        "title": plan.spec.name,
        "spec": plan.document.text,
        "spec_path": str(plan.document.path.resolve()),
        "spec_sha256": plan.document.sha256,
        "description_sha256": json.dumps(_description_hashes(plan)),
        "metrics": json.dumps({w.name: {name: m.model_dump() for name, m in w.description.metrics.items()} for w in plan.workloads}),
        "run_on": json.dumps({w.name: {**w.listed_inputs, **w.assumed} for w in plan.workloads if w.listed_inputs or w.assumed}),
        "links": json.dumps({a.name: {path: f.text for path, f in a.links.formulas.items()} for a in plan.accelerators if a.links}),
        "unverified": json.dumps(_list_unverified(plan)),
        "versions": json.dumps(_package_versions()),
        "seed": "none (deterministic)",
        "device": f"{jax.devices()[0].device_kind}, {platform.machine()}",
        "command": shlex.join(sys.argv),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def read_spec(dataset: xr.Dataset) -> SweepSpec:
    """The specification of a dataset; raises InputError if it has none."""
    return _read_document(dataset).validate(SweepSpec)


def rebuild_plan(dataset: xr.Dataset) -> Plan:
    """The plan of a dataset, with its descriptions read again; raises InputError if they have changed since."""
    document = _read_document(dataset)
    plan = build_plan(document.validate(SweepSpec), document)
    _check_descriptions(dataset, plan, "run 'dse sweep' again")
    return plan


def check_same_sweep(dataset: xr.Dataset, plan: Plan) -> None:
    """Raise InputError unless resuming `dataset` gives the same results as evaluating `plan`."""
    fix = "give another path, or remove it"
    if dataset.attrs.get("spec_sha256") != plan.document.sha256:
        raise InputError("the dataset was computed from another specification", fix)
    _check_descriptions(dataset, plan, fix)
    before, now = json.loads(dataset.attrs["versions"]), _package_versions()
    if changed := [f"{name} {before.get(name)} (now {now[name]})" for name in DECISIVE_PACKAGES if before.get(name) != now[name]]:
        raise InputError(f"the dataset was begun with {', '.join(changed)}", f"install what it was begun with, or {fix}")


def _check_descriptions(dataset: xr.Dataset, plan: Plan, fix: str) -> None:
    before = json.loads(dataset.attrs["description_sha256"])
    now = _description_hashes(plan, with_contents=any(name.endswith(CONTENTS_SUFFIX) for name in before))
    if changed := sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name)):
        raise InputError(f"changed since the dataset was computed: {', '.join(changed)}", fix)


def _read_document(dataset: xr.Dataset) -> YamlDocument:
    if "spec" not in dataset.attrs or "spec_path" not in dataset.attrs:
        raise InputError("the dataset does not name the specification that it was computed from", "give one that 'dse sweep' wrote")
    return parse_document(Path(dataset.attrs["spec_path"]), dataset.attrs["spec"])


def _description_hashes(plan: Plan, with_contents: bool = False) -> dict[str, str]:
    """SHA-256 of every description that was read; where workloads are objects, or on request, of the contents of all workloads, too."""
    kernels = {accelerator.name: chosen for accelerator, chosen in zip(plan.accelerators, plan.fitted_kernels, strict=True)}
    return hash_descriptions(plan.accelerators, plan.workloads, kernels, with_contents or bool(plan.spec.loaded_workloads))


@cache
def _package_versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in (*DECISIVE_PACKAGES, "xarray")}


def _list_unverified(plan: Plan) -> dict[str, list[str]]:
    """Paths of numbers and runs that the model uses, but that were not read at their source, by accelerator."""
    paths = {accelerator.name: _unverified_paths(accelerator, plan) for accelerator in plan.accelerators}
    return {name: unverified for name, unverified in paths.items() if unverified}


def _unverified_paths(accelerator: Accelerator, plan: Plan) -> list[str]:
    fidelity, has_costs = plan.spec.model.fidelity, bool(plan.spec.store.cost_variables)
    listed = [execution for dtype in plan.spec.dtype for execution in list_executions(accelerator, dtype, fidelity)]
    used = rate_paths(listed) | {level.reuse_capacity for level in memory_levels(accelerator, fidelity)}
    used |= {f"units.{execution.unit}.runs.{execution.run_name}" for execution in listed}
    if any(variant.runtime == "eager" for variant in plan.variants):
        used |= set(HOST_PATHS)
    if fidelity == "calibrated":
        used |= {f"units.{execution.unit}.{name}" for execution in listed for name in UNIT_NUMBERS}
        used |= {LAUNCH_LATENCY, POWER_LIMIT}
    return [path for path in accelerator.unverified() if path in used or (has_costs and COST_PATH.fullmatch(path))]
