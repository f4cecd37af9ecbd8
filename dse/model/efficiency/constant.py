"""E: the share of peak * gain that is reached.

`sol`, speed of light: E = 1 (Shinn et al. 2023). `r3`: one constant per unit and pattern (Gale 2022,
"Sparsity in Deep Neural Networks": R = W / (P * E)), read from the run's `efficiency`. `capacity`: E = 1 too.
`calibrated`: a function of the layer, which no path of the description holds (`dse.model.efficiency.fitted`).
"""

from collections.abc import Iterable

from dse.schema.compute_unit import Run
from dse.schema.model_options import Fidelity

PATHS: dict[Fidelity, tuple[str, ...]] = {"sol": (), "r3": ("efficiency",), "capacity": (), "calibrated": ()}


def efficiency_paths(run: str, fidelity: Fidelity) -> tuple[str, ...]:
    """The dotted paths whose product is E of the run at `run`."""
    return tuple(f"{run}.{key}" for key in PATHS[fidelity])


def unstated(accelerator: str, runs: Iterable[Run], dtype: str, fidelity: Fidelity) -> list[str]:
    """Warn if no run of a device states an efficiency that the fidelity asks for: its results are then those of `sol`."""
    if not PATHS[fidelity] or any(run.efficiency.text for run in runs):
        return []
    fix = "give its runs an 'efficiency' (the run 'dense' too), or use fidelity 'sol' or 'calibrated'"
    return [f"fidelity '{fidelity}' equals 'sol' on '{accelerator}' in {dtype}: its description states no efficiencies; {fix}"]
