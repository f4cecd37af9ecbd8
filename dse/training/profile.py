"""How long networks are trained, and which networks and patterns a study has by default."""

from dataclasses import dataclass

SPARSITIES = (0.5, 0.75, 0.875, 0.9375, 0.96875)  # densities 1/2 to 1/32, those of the Sparsity Roofline
FREE_PATTERNS = ("unstructured", "block:2x2", "block:4x4", "block:8x8", "block:16x16", "block:16x16/2:4")
FIXED_PATTERNS = (
    "1:2", "1:4", "1:8", "1:16", "1:32", "2:4", "2:8", "2:16", "2:32",
    "16:2:8", "16:2:16", "16:2:32", "16:1:32", "4:8x16", "4:16x16", "4:32x16",
)  # fmt: skip
NETWORK_NAMES = ("resnet", "mixer", "vit")


@dataclass(frozen=True)
class Profile:
    """The effort of a study.

    Attributes:
        epochs: epochs of the dense network.
        rewound_epochs: last epochs of its schedule, which each pruned network is trained for again.
        seeds: networks of each kind, from seed 0 on.
        peak_rate: highest learning rate of AdamW.
        weight_decay: of AdamW.
        batch_size: images of one step.
    """

    epochs: int
    rewound_epochs: int
    seeds: int
    networks: tuple[str, ...]
    patterns: tuple[str, ...]
    sparsities: tuple[float, ...] = SPARSITIES
    peak_rate: float = 4e-3
    weight_decay: float = 1e-2
    batch_size: int = 32


PROFILES = {
    "study": Profile(24, 10, 3, NETWORK_NAMES, FREE_PATTERNS + FIXED_PATTERNS),
    "quick": Profile(6, 3, 2, ("resnet",), ("unstructured", "block:4x4", "1:2", "1:4", "1:8"), (0.5, 0.75, 0.875)),
}
