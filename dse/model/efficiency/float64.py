"""Functions of JAX in double precision, in which kernels are fitted and evaluated."""

from collections.abc import Callable
from typing import Any

import jax


def compile_in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a JAX function and call it in double precision."""
    compiled = jax.jit(function)

    def call(*arguments: Any) -> Any:
        with jax.enable_x64(True):
            return compiled(*arguments)

    return call
