"""The decorator that compiles loops with numba."""

from functools import partial
from typing import Any

from dse.base.errors import InputError

try:
    import numba
except ImportError as error:
    raise InputError("simulating connections needs the package 'numba'", "pip install 'sparse-dse[io]'") from error

# numba recompiles a cached function when its own file changes, but not when a file that it calls changes: delete __pycache__ then.
jit: Any = partial(numba.njit, cache=True, nogil=True)  # use as @jit()
