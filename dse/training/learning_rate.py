"""The schedule of learning rates, and learning-rate rewinding.

After pruning, a network keeps its weights and is trained again with the learning rates of the last epochs of the dense schedule (Renda,
Frankle and Carbin 2020, arXiv 2003.02389), instead of with the low last one, as in fine-tuning.
"""

import numpy as np
from jaxtyping import Float

WARM_UP = 0.1  # share of the schedule in which the rate rises


def learning_rates(epochs: int, steps: int, peak: float) -> Float[np.ndarray, "epoch step"]:
    """The rate of each step: a linear rise to `peak`, then half a cosine down to 0 (Loshchilov and Hutter 2017, arXiv 1608.03983)."""
    position = (np.arange(epochs * steps) + 0.5) / (epochs * steps)
    cosine = 0.5 * (1 + np.cos(np.pi * (position - WARM_UP) / (1 - WARM_UP)))
    return (peak * np.where(position < WARM_UP, position / WARM_UP, cosine)).astype(np.float32).reshape(epochs, steps)


def rewound_rates(epochs: int, rewound_epochs: int, steps: int, peak: float) -> Float[np.ndarray, "epoch step"]:
    """The rates of the last `rewound_epochs` of the schedule, with which a pruned network is trained again."""
    return learning_rates(epochs, steps, peak)[epochs - rewound_epochs :]
