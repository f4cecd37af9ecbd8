"""Compiled loops, for which numba is needed."""

from functools import partial
from typing import Any

from dse.base.errors import InputError

try:
    import numba
except ImportError as error:
    raise InputError("simulating connections needs the package 'numba'", "pip install 'sparse-dse[io]'") from error

# What is cached is compiled again once its own file changes; after a change in a file that it calls, delete __pycache__.
compiled: Any = partial(numba.njit, cache=True, nogil=True)  # decorates a function: @compiled()
