"""Which images each training step reads, and at which learning rate.

After pruning, a network keeps its weights and is trained again with the learning rates of the last epochs of the dense schedule (Renda,
Frankle and Carbin 2020, arXiv 2003.02389), instead of with the low last one, as in fine-tuning: learning-rate rewinding.
"""

import numpy as np
from jaxtyping import Float, Int

Batches = Int[np.ndarray, "member epoch step batch"]  # numbers of images


def choose_batches(seed: int, label: str, images: int, epochs: int, batch_size: int) -> Int[np.ndarray, "epoch step batch"]:
    """The batches of one network: every epoch is a new permutation of the images, without its incomplete last batch.

    They depend on the seed and on the label of the pruning step alone.
    """
    generator, steps = np.random.default_rng([seed, *label.encode()]), images // batch_size
    orders = [generator.permutation(images)[: steps * batch_size] for _ in range(epochs)]
    return np.array(orders, np.int32).reshape(epochs, steps, batch_size)


WARM_UP = 0.1  # share of the schedule in which the rate rises


def learning_rates(epochs: int, steps: int, peak: float) -> Float[np.ndarray, "epoch step"]:
    """The rate of each step: a linear rise to `peak`, then half a cosine down to 0 (Loshchilov and Hutter 2017, arXiv 1608.03983)."""
    position = (np.arange(epochs * steps) + 0.5) / (epochs * steps)
    cosine = 0.5 * (1 + np.cos(np.pi * (position - WARM_UP) / (1 - WARM_UP)))
    return (peak * np.where(position < WARM_UP, position / WARM_UP, cosine)).astype(np.float32).reshape(epochs, steps)


def rewound_rates(epochs: int, rewound_epochs: int, steps: int, peak: float) -> Float[np.ndarray, "epoch step"]:
    """The rates of the last `rewound_epochs` of the schedule, with which a pruned network is trained again."""
    return learning_rates(epochs, steps, peak)[epochs - rewound_epochs :]
