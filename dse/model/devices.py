"""The GPUs, TPUs or CPU that JAX evaluates designs on: rows of a grid fall to all of a machine's in equal parts."""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AT_ONCE = {"cpu": 2**18}  # designs, about: enough to hide the call, few enough for their results to stay in the cache
MORE = 2**23  # elsewhere, of each device: a call and a transfer take longer, evaluating hardly any time (unmeasured)


def count() -> int:
    return jax.local_device_count()


def at_once() -> int:
    """Designs that are evaluated in one call."""
    return count() * AT_ONCE.get(jax.default_backend(), MORE)


def over_all(rows: np.ndarray) -> Any:
    """Something [..., row] laid out over the devices; its rows are a multiple of their number."""
    if count() == 1:
        return rows
    mesh = Mesh(np.array(jax.local_devices()), ("row",))
    return jax.device_put(rows, NamedSharding(mesh, PartitionSpec(*[None] * (rows.ndim - 1), "row")))
