"""The GPUs, TPUs or CPU that JAX evaluates designs on: the rows of a grid are shared among all of a machine's in equal parts."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dse.base.array_types import AnyArray

CACHE = {"cpu": 2**23}  # bytes of the designs of one call: they stay in the cache, and the cost of the call is hidden
DEVICE_MEMORY = 2**27  # the same elsewhere, for each device: a call and a transfer take longer, evaluating hardly any time (unmeasured)


def count() -> int:
    return jax.local_device_count()


def designs_at_once(bytes_per_design: int) -> int:
    """How many designs are evaluated in one call."""
    return count() * CACHE.get(jax.default_backend(), DEVICE_MEMORY) // bytes_per_design


def shard_rows(array: np.ndarray, row_axis: int = -1) -> AnyArray:
    """An array laid out over the devices along its rows, whose number is a multiple of that of the devices."""
    if count() == 1:
        return array
    mesh = Mesh(np.array(jax.local_devices()), ("row",))
    axes: list[str | None] = [None] * array.ndim
    axes[row_axis] = "row"
    return jax.device_put(array, NamedSharding(mesh, PartitionSpec(*axes)))
