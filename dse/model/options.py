"""The choice of factors in time = W / (P * E)."""

from typing import Literal

from pydantic import Field

from dse.schema import Part

Fidelity = Literal["sol", "r3"]
Counting = Literal["implicit", "im2col"]
Overlap = Literal["full", "none"]


class ModelOptions(Part):
    """What an evaluation assumes; `model:` in a specification."""

    fidelity: Fidelity = Field("sol", description="sol: E = 1; r3: the efficiency of each run")
    activations: Counting = Field("implicit", description="how often a convolution reads its input")
    dense_fallback: bool = Field(False, description="may a pruned layer run dense where that is faster")
    overlap: Overlap = Field("full", description="full: the slowest resource sets the time; none: they add up")
