"""Launches of attention for tests."""

from typing import Any

import numpy as np

from dse.model.efficiency.attention.launches import AttentionKey, AttentionLaunches, AttentionRates, phase_of

GPU = AttentionRates(peak=312e12, cache_peak=312e12, bandwidth=2.039e12, cache=40e6, processors=108)  # an A100
SIZES = {"sequences": 1, "queries": 1, "keys": 1, "heads": 1, "kv_heads": 1, "size": 128, "window": np.inf}


def make_launches(causal: bool = True, rates: AttentionRates = GPU, writes_cache: bool = False, **sizes: Any) -> AttentionLaunches:
    """Launches of these sizes, numbers or arrays of equal length."""
    columns = dict(zip(SIZES, np.broadcast_arrays(*(np.atleast_1d(np.asarray(v, float)) for v in (SIZES | sizes).values())), strict=True))
    count = len(columns["keys"])
    key = AttentionKey("gpu", "kernel", "", phase_of(columns["queries"].max(), causal), "bf16", "bf16")
    flags = {"is_causal": np.full(count, causal), "writes_cache": np.full(count, writes_cache)}
    return AttentionLaunches(key, rates, **columns, **flags, time=np.full(count, np.nan))
