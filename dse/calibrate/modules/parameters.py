"""The parameters of the time of a module: meaning, unit, prior and bounds of each.

`SHARED` hold for all networks and dtypes of a kernel. There is one of `EFFICIENCIES` for each dtype of the weights, one of `ATTENTION` and
one of `GATHERS` for each of the cache, whose keys a kernel may have to convert, and one of `LAUNCHES` for each network and dtype. Priors
are assumed: round numbers of the size that kernels of these devices have.
"""

import numpy as np

from dse.calibrate.modules.launches import COMPUTE_DTYPES
from dse.calibrate.modules.shapes import MODULE_SHAPES
from dse.model.efficiency.parameter import Parameter

NETWORKS, WEIGHT_DTYPES, CACHE_DTYPES = tuple(MODULE_SHAPES), tuple(COMPUTE_DTYPES), ("bf16", "fp8")
SHARED = (
    Parameter("exposed", "1", 0.2, 1.0, 0.001, 0.999, "share of the launches that no kernel hides, where the host launches", is_share=True),
    Parameter("spread", "1", 0.02, 1.0, 1e-4, 1, "growth of the launches with each doubling of the tokens, up to one for each processor"),
    Parameter("bandwidth", "1", 0.75, 0.5, 0.05, 0.99, "achievable share of the bandwidth of the memory", is_share=True),
    Parameter("cached", "1", 0.3, 0.7, 0.01, 0.99, "time of a byte in the cache over that of one in memory", is_share=True),
    Parameter("resident", "1", 0.5, 0.7, 0.01, 0.99, "share of the cache that keeps its contents between launches", is_share=True),
    Parameter("rows", "1", 32.0, 0.7, 1, 512, "tokens to which a projection is padded"),
    Parameter("passes", "1", 1.5, 0.7, 0.01, 20, "passes over the inputs and outputs of the projections"),
    Parameter("score", "1", 0.3, 0.7, 0.005, 0.99, "share of the peak that the indexer's scores reach", is_share=True),
    Parameter("selection", "s", 1e-12, 1.5, 1e-15, 1e-8, "time to select, for each score (of a block, its maximum)"),
    Parameter("list", "s", 1e-9, 1.5, 1e-13, 1e-5, "time to select, for each token and choosing head"),
    Parameter("token", "s", 3e-9, 1.5, 1e-12, 1e-5, "further time of a token: norms, rotations, quantisation, writes of the cache"),
    Parameter("batch", "s", 1e-13, 1.5, 1e-18, 1e-8, "time of each pair of a token and a sequence, times the choosing heads"),
)  # fmt: skip
EFFICIENCIES = tuple(
    Parameter(f"projection {dtype}", "1", prior, 0.5, 0.01, 0.99, f"share of the peak that projections in {dtype} reach", is_share=True)
    for dtype, prior in zip(WEIGHT_DTYPES, (0.6, 0.4, 0.3), strict=True)
)
ATTENTION = tuple(
    Parameter(
        f"attention {dtype}", "1", 0.4, 0.7, 0.005, 0.99, f"share of the peak that attention to chosen {dtype} keys reaches", is_share=True
    )
    for dtype in CACHE_DTYPES
)
GATHERS = tuple(
    Parameter(
        f"gather {dtype}", "1", 0.7, 0.7, 0.02, 50, f"rate at which chosen {dtype} keys are gathered, over the bandwidth of the memory"
    )
    for dtype in CACHE_DTYPES
)
LAUNCHES = tuple(
    Parameter(f"launch {network} {dtype}", "s", 1e-4, 1.5, 1e-6, 1e-2, f"launches of a module of {network} in {dtype}")
    for network in NETWORKS
    for dtype in WEIGHT_DTYPES
)
MODULE_PARAMETERS = (*SHARED, *EFFICIENCIES, *ATTENTION, *GATHERS, *LAUNCHES)
MODULE_PRIOR = np.array([p.to_theta(p.prior) for p in MODULE_PARAMETERS])
MODULE_DEVIATION = np.array([p.deviation for p in MODULE_PARAMETERS])
MODULE_LOWER = np.array([p.to_theta(p.low) for p in MODULE_PARAMETERS])
MODULE_UPPER = np.array([p.to_theta(p.high) for p in MODULE_PARAMETERS])
