"""Which images each training step reads."""

import numpy as np
from jaxtyping import Int

Batches = Int[np.ndarray, "member epoch step batch"]  # numbers of images


def choose_batches(seed: int, label: str, images: int, epochs: int, batch_size: int) -> Int[np.ndarray, "epoch step batch"]:
    """The batches of one network: every epoch is a new permutation of the images, without its incomplete last batch.

    They depend on the seed and on the label of the pruning step alone.
    """
    generator, steps = np.random.default_rng([seed, *label.encode()]), images // batch_size
    orders = [generator.permutation(images)[: steps * batch_size] for _ in range(epochs)]
    return np.array(orders, np.int32).reshape(epochs, steps, batch_size)
