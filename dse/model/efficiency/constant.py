"""Constant efficiency E, the share of peak * gain that a run reaches.

`sol`, speed of light, and `capacity`: E = 1 (Shinn et al. 2023). `r3`: one constant for each run, its `efficiency` (Gale 2022, "Sparsity in
Deep Neural Networks": R = W / (P * E)). `calibrated`: E depends on the layer and is not in the description (`dse.model.efficiency.fitted`).
"""

from collections.abc import Iterable

from dse.schema.model_options import Fidelity
from dse.schema.unit_run import Run

EFFICIENCY_KEYS: dict[Fidelity, tuple[str, ...]] = {"sol": (), "r3": ("efficiency",), "capacity": (), "calibrated": ()}


def efficiency_paths(run: str, fidelity: Fidelity) -> tuple[str, ...]:
    """The dotted paths whose product is E of the run at `run`."""
    return tuple(f"{run}.{key}" for key in EFFICIENCY_KEYS[fidelity])


def missing_efficiency_warnings(accelerator: str, runs: Iterable[Run], dtype: str, fidelity: Fidelity) -> list[str]:
    """A warning if the fidelity uses stated efficiencies and no run of the device states one, so that its results equal those of `sol`."""
    if not EFFICIENCY_KEYS[fidelity] or any(run.efficiency.text for run in runs):
        return []
    fix = "give its runs an 'efficiency' (the run 'dense' too), or use fidelity 'sol' or 'calibrated'"
    return [f"fidelity '{fidelity}' equals 'sol' on '{accelerator}' in {dtype}: its description states no efficiencies; {fix}"]
