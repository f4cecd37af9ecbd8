"""`dse sweep --dry-run`: what a sweep would evaluate, and how large its results would be."""

from dse.sweeping.axis import Role
from dse.sweeping.plan import Plan

ROLES: dict[Role, str] = {
    "rate": "scales a rate",
    "categorical": "changes what runs",
    "tabulated": "changes bytes or kernel efficiencies",
    "unused": "does not change the latency",
}


def describe_plan(plan: Plan) -> str:
    spec = plan.spec
    layers = ", ".join(f"{len(workload.layers)} of {workload.name}" for workload in plan.workloads)
    counts = f"{plan.design_count} designs x {len(plan.variants)} variants x {len(spec.batch)} batch sizes x {len(spec.dtype)} dtypes"
    lines = [
        f"sweep        {spec.name} ({plan.document.path})",
        f"accelerators {', '.join(accelerator.name for accelerator in plan.accelerators)}",
        f"workloads    {', '.join(workload.name for workload in plan.workloads)}",
        *(f"run on       {workload.name}: {workload.run_on}" for workload in plan.workloads if workload.run_on),
        *(f"axis         {axis.path}: {len(axis)} values ({ROLES[axis.role]})" for axis in plan.axes),
        f"evaluates    {counts}, layers: {layers}",
        f"results      at most {plan.result_bytes / 1e6:.3g} MB: {', '.join(spec.store.variables)}",
        *(f"variant      {variant.workload}: {variant}" for variant in plan.variants),
    ]
    return "\n".join(lines)
