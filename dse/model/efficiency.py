"""E: the share of peak * gain that is reached.

`sol`, speed of light: E = 1 (Shinn et al. 2023). `r3`: one constant per unit and pattern (Gale 2022,
"Sparsity in Deep Neural Networks": R = W / (P * E)), read from the run's `efficiency`. `capacity`: E = 1 too.
`calibrated`: a function of the layer, which no path of the description holds (`dse.calibrate.network`).
"""

from dse.model.options import Fidelity

PATHS: dict[Fidelity, tuple[str, ...]] = {"sol": (), "r3": ("efficiency",), "capacity": (), "calibrated": ()}


def efficiency_paths(run: str, fidelity: Fidelity) -> tuple[str, ...]:
    """The dotted paths whose product is E of the run at `run`."""
    return tuple(f"{run}.{key}" for key in PATHS[fidelity])
