"""How often the best design, and the pattern that each network runs on it, stay the best over samples of uncertain accuracies.

A search chooses variants by the best estimates of their accuracies. Here its best designs choose again in each sample, among the variants
that are within the tolerance in that sample, including those that the best estimates refuse. No design is searched for again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from dse.base.progress import logger
from dse.searching.archive import Archive
from dse.searching.evaluator import Evaluator
from dse.searching.feasible_variants import SampledVariants, sample_feasible
from dse.searching.space import DesignMatrix
from dse.workload import Variant
from dse.workload.pattern_shares import PatternShares

MAX_DESIGNS = 100  # best ones of the archive that compete in each sample
MIN_SHARE = 0.005  # from which another design is mentioned
QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class SampledDesigns:
    """What designs, best first, choose in samples of the accuracies.

    `shares`: of the patterns of each network, by its name, on each design; `objective`: the first one of each design in each sample, to be
    minimised, infinite where a constraint is not met [design, sample]; `sign`: -1 where it is maximised; `tie_tolerance`: relative
    difference up to which two designs are equally good.
    """

    shares: tuple[Mapping[str, PatternShares], ...]
    objective: Float[np.ndarray, "design sample"]
    sign: float
    name: str
    tie_tolerance: float

    @cached_property
    def better_share(self) -> float:
        """Share of the samples in which another design is better than the best one [1]."""
        best, others = self.objective[0], self.objective[1:]
        limit = best - self.tie_tolerance * np.abs(np.where(np.isfinite(best), best, 0.0))
        return float((others < limit).any(axis=0).mean()) if len(others) else 0.0

    @property
    def interval(self) -> Float[np.ndarray, " quantile"] | None:
        """5%, 50% and 95% quantile of the first objective of the best design; None where it is infeasible in some sample."""
        values = np.sort(self.sign * self.objective[0])
        return np.quantile(values, QUANTILES, method="inverted_cdf") if np.isfinite(values).all() else None

    @property
    def is_decided(self) -> bool:
        """Whether the pattern of every network on the best design is decided."""
        return all(shares.is_decided for shares in self.shares[0].values())

    @property
    def sentence(self) -> str:
        """What the samples say about the best design, in one sentence without a full stop."""
        one = len(self.shares[0]) == 1
        parts = [shares.sentence if one else f"{name}: {shares.sentence}" for name, shares in self.shares[0].items()]
        if self.interval is not None and self.interval[0] < self.interval[2]:
            parts.append(f"{self.name} {self.interval[0]:.4g} to {self.interval[2]:.4g} in 90% of samples")
        if self.better_share >= MIN_SHARE:
            parts.append(f"another of the {len(self.objective)} best designs is better in {100 * self.better_share:.0f}%")
        return "; ".join(parts)

    def describe(self, design: int) -> str:
        """The shares of one design, as in 'resnet50: 2:8 in 71% of samples, 1:4 in 24%'."""
        return "; ".join(f"{name}: {shares}" for name, shares in self.shares[design].items())


def sample_designs(archive: Archive) -> SampledDesigns | None:
    """Let the best designs of an archive choose their variants in each sample; None if no accuracy has an interval."""
    problem = archive.evaluator.problem
    sampled = {name: sample_feasible(*network, problem.tolerance) for name, network in problem.networks.items()}
    if not any(each.has_intervals for each in sampled.values()):
        return None
    variants = {name: each.variants for name, each in sampled.items()}
    evaluator = Evaluator(archive.evaluator.space, replace(problem, given_variants=variants), archive.evaluator.base)
    designs = archive.designs[archive.ranking()[:MAX_DESIGNS]]
    chosen = archive.evaluator.evaluate_networks(designs).choice
    logger.info(f"choose among {len(evaluator.variants)} variants on the {len(designs)} best designs in samples of the accuracies")
    choice, objective = _evaluate_samples(evaluator, designs, sampled)
    shares = tuple(
        {
            name: _pattern_shares(evaluator, choice[network, number], _pattern_text(archive.evaluator.variants[chosen[network, number]]))
            for network, name in enumerate(sampled)
        }
        for number in range(len(designs))
    )
    (expression, sign), *_ = problem.search.objectives
    return SampledDesigns(shares, objective, sign, str(expression), problem.search.tie_tolerance)


def _evaluate_samples(
    evaluator: Evaluator, designs: DesignMatrix, sampled: Mapping[str, SampledVariants]
) -> tuple[Int[np.ndarray, "network design sample"], Float[np.ndarray, "design sample"]]:
    """The variants that each design runs in each sample, and its first objective. Samples with the same feasible variants share them."""
    feasible = np.concatenate([each.feasible for each in sampled.values()])
    masks, samples = np.unique(feasible, axis=1, return_inverse=True)
    choices, objectives = [], []
    for results in evaluator.evaluate_choices(designs, list(masks.T)):
        values, excess = evaluator.score_results(results, len(designs))
        choices.append(results.choice)
        objectives.append(np.where((excess <= 0).all(axis=1), values[:, 0], np.inf))
    samples = samples.ravel()
    return np.stack(choices, axis=-1)[..., samples], np.stack(objectives, axis=-1)[..., samples]


def _pattern_text(variant: Variant) -> str:
    """The pattern of a variant, and whether its accuracy is assumed."""
    return f"{variant.pattern} (assumed)" if variant.is_assumed else str(variant.pattern)


def _pattern_shares(evaluator: Evaluator, choice: Int[np.ndarray, " sample"], chosen: str) -> PatternShares:
    """The share of each pattern among the variants that are chosen."""
    shares: dict[str, float] = {}
    for index, count in zip(*np.unique(choice, return_counts=True), strict=True):
        pattern = _pattern_text(evaluator.variants[index])
        shares[pattern] = shares.get(pattern, 0.0) + float(count) / len(choice)
    return PatternShares(shares, chosen)
