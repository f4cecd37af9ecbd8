"""The GPUs, TPUs or CPU that JAX evaluates designs on: rows of a grid fall to all of a machine's in equal parts."""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

CACHE = {"cpu": 2**23}  # bytes that designs which are evaluated in one call may take: they stay in the cache, and the call is hidden
MORE = 2**27  # elsewhere, of each device: a call and a transfer take longer, evaluating hardly any time (unmeasured)


def count() -> int:
    return jax.local_device_count()


def at_once(size: int) -> int:
    """Designs that are evaluated in one call, where each takes so many bytes."""
    return count() * CACHE.get(jax.default_backend(), MORE) // size


def over_all(rows: np.ndarray) -> Any:
    """Something [..., row] laid out over the devices; its rows are a multiple of their number."""
    if count() == 1:
        return rows
    mesh = Mesh(np.array(jax.local_devices()), ("row",))
    return jax.device_put(rows, NamedSharding(mesh, PartitionSpec(*[None] * (rows.ndim - 1), "row")))
