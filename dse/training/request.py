"""What a study is to measure, checked as a whole before any network is trained."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.sparsity.grammar import parse
from dse.sparsity.pruned_pattern import SAME, PrunedPattern
from dse.sparsity.pruning import Scope
from dse.training.dataset import Dataset

STUDY = "study.json"  # in the folder of a finished study
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


@dataclass(frozen=True)
class StudyRequest:
    """Networks, pruning targets and seeds of a study.

    Attributes:
        targets: the patterns and sparsities whose accuracy is measured.
        seeds: one network is trained for each.
        scope: whether every layer keeps the same share (`layer`) or the tiles of all layers compete (`global`).
    """

    dataset: Dataset
    networks: tuple[str, ...]
    targets: tuple[PrunedPattern, ...]
    seeds: tuple[int, ...]
    profile: Profile
    scope: Scope = "layer"

    def fingerprint(self) -> str:
        """What the result depends on, as JSON: a checkpoint of another request is not continued."""
        profile = self.profile
        return json.dumps(
            {
                "version": version("sparse-dse"), "data": self.dataset.sha256(), "networks": self.networks,
                "targets": [str(target) for target in self.targets], "seeds": self.seeds, "scope": self.scope,
                "training": [profile.epochs, profile.rewound_epochs, profile.peak_rate, profile.weight_decay, profile.batch_size],
            }
        )  # fmt: skip


def check_networks(names: Iterable[str]) -> tuple[str, ...]:
    """The names of networks, each once; raises InputError with every unknown one."""
    problems = ProblemCollector()
    for name in names:
        with problems.collect():
            if name not in NETWORK_NAMES:
                raise InputError(f"unknown network '{name}'", did_you_mean(name, NETWORK_NAMES))
    problems.raise_if_any()
    return tuple(dict.fromkeys(names))


def check_targets(patterns: Iterable[str], sparsities: Sequence[float] | None, default: Sequence[float]) -> tuple[PrunedPattern, ...]:
    """Every pattern at every sparsity, each target once; raises InputError with every error.

    A pattern that fixes its density is one target. If `sparsities` are given, it must have one of them.
    """
    problems, targets = ProblemCollector(), list[PrunedPattern]()
    for sparsity in sparsities or ():
        with problems.collect():
            if not 0 < sparsity < 1:
                raise InputError(f"a sparsity of {sparsity:g} is out of range", "write a number above 0 and below 1")
    for text in patterns:
        with problems.collect():
            targets += _targets_of(text, sparsities, default, problems)
    problems.raise_if_any()
    return tuple(dict.fromkeys(targets))


def _targets_of(text: str, sparsities: Sequence[float] | None, default: Sequence[float], problems: ProblemCollector) -> list[PrunedPattern]:
    pattern, targets = parse(text), list[PrunedPattern]()
    if (density := pattern.density) is not None:
        step = PrunedPattern.of(pattern)
        if sparsities is not None and not any(abs(sparsity - step.sparsity) <= SAME for sparsity in sparsities):
            listed = ", ".join(f"{sparsity:g}" for sparsity in sparsities)
            raise InputError(f"'{pattern}' is {1 - density:g} sparse and reaches none of {listed}", f"add {1 - density:g}, or leave it out")
        return [step]
    for sparsity in default if sparsities is None else [sparsity for sparsity in sparsities if 0 < sparsity < 1]:
        with problems.collect():
            targets.append(PrunedPattern.of(pattern, sparsity))
    return targets


def check_seeds(number: int) -> tuple[int, ...]:
    """Seeds 0 to `number` - 1; raises InputError if there are none, or too many for an interval to need."""
    if not 1 <= number <= 1000:
        raise InputError(f"{number} seeds are out of range", "write a number from 1 to 1000")
    return tuple(range(number))
