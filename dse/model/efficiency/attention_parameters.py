"""The eight parameters of a fused attention kernel: meaning, unit, prior and bounds of each.

The priors are about the medians and spreads of 17 kernels of FlashAttention, FlashInfer and TensorRT-LLM on three GPUs, fitted with wider
priors (ai-dynamo/aiconfigurator@095f58a51c4c).
"""

import numpy as np

from dse.model.efficiency.parameters import Parameter, Theta, theta_to_values, values_to_theta

ATTENTION_PARAMETERS = (
    Parameter("launch", "s", 6e-6, 0.45, 1e-7, 1e-3, "time of a launch before it computes anything"),
    Parameter("efficiency", "1", 0.54, 0.4, 0.005, 0.99, "share of the peak that a full tile reaches", is_share=True),
    Parameter("score", "1", 75.0, 0.4, 1, 1e4, "time of the exponential, maximum and sum of a score, in elements of a head at the peak"),
    Parameter("fill", "s", 1.1e-6, 0.75, 1e-9, 1e-3, "start and end of a tile"),
    Parameter("tail", "1", 0.8, 1.0, 0.01, 0.99, "exponent of the loss by an unfilled wave: 0 for none of it, 1 for all", is_share=True),
    Parameter("bandwidth", "1", 0.8, 0.5, 0.05, 0.99, "achievable share of the bandwidth of the memory", is_share=True),
    Parameter("resident", "1", 0.5, 0.7, 0.001, 0.999, "share of the cache that keeps its contents between launches", is_share=True),
    Parameter("write", "s", 2.5e-6, 0.4, 1e-8, 1e-3, "block of threads that writes tokens into the cache, where that is measured too"),
)  # fmt: skip
ATTENTION_PRIOR = np.array([p.to_theta(p.prior) for p in ATTENTION_PARAMETERS])
ATTENTION_DEVIATION = np.array([p.deviation for p in ATTENTION_PARAMETERS])
ATTENTION_LOWER = np.array([p.to_theta(p.low) for p in ATTENTION_PARAMETERS])
ATTENTION_UPPER = np.array([p.to_theta(p.high) for p in ATTENTION_PARAMETERS])


def attention_values(theta: Theta) -> dict[str, float]:
    """Value of each parameter by its name."""
    return theta_to_values(theta, ATTENTION_PARAMETERS)


def attention_theta(values: dict[str, float]) -> Theta:
    """Theta of the values by name, in the order of `ATTENTION_PARAMETERS`."""
    return values_to_theta(values, ATTENTION_PARAMETERS)
