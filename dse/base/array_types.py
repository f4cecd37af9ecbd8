"""Types of the arrays that the evaluator computes with: of NumPy outside of compiled functions, of JAX inside."""

from typing import TypeVar

import numpy as np
from jax import Array

AnyArray = Array | np.ndarray
ArrayT = TypeVar("ArrayT", np.ndarray, Array)  # of one library in all places of a signature
