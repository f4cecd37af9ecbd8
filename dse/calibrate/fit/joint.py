"""Fit kernels jointly: each with the population of the kernels like it as prior, which is estimated again from all of them.

Several combinations of parameters may explain the times of one kernel about as well. The prior chooses those that kernels of other devices
have as well, so that the mean of the population predicts a device that was not measured (empirical Bayes; Efron and Morris, 1975).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from dse.calibrate.fit.kernel import STEPS, stratify
from dse.calibrate.fit.parameters import NOISE, fit_parameters, posterior_deviation
from dse.model.efficiency.kernels.launches import KernelLaunches
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.parameters import PRIOR
from dse.model.efficiency.kernels.population import Population
from dse.model.efficiency.kernels.record import KernelRecord
from dse.model.efficiency.parameter import Distribution

ROUNDS = 3  # of estimating populations and fitting kernels alternately
JOINT_LAUNCHES = 256  # of each kernel, which a fit uses


class JointFit(NamedTuple):
    """A fitted kernel, its launches, and the prior and the noise that it was fitted with."""

    model: KernelModel
    launches: KernelLaunches
    prior: Distribution = PRIOR
    noise: float = NOISE  # standard deviation of the logarithm of a measured time about the model


def fit_jointly(kernels: Iterable[JointFit], others: Sequence[KernelRecord] = (), rounds: int = ROUNDS) -> list[JointFit]:
    """Fit the parameters of kernels again, those of one group with the population of the group as prior.

    `others`: kernels that belong to the populations as they are.
    """
    ordered = sorted(kernels, key=_group)
    return [fit for _, group in groupby(ordered, key=_group) for fit in _fit_group(list(group), others, rounds)]


def _fit_group(group: Sequence[JointFit], others: Sequence[KernelRecord], rounds: int) -> Sequence[JointFit]:
    sampled = [fit._replace(launches=stratify(fit.launches, JOINT_LAUNCHES)) for fit in group]
    for _ in range(rounds):
        prior = population(sampled, others).distribution
        sampled = [JointFit(fit_parameters(fit.model, fit.launches, STEPS, prior=prior), fit.launches, prior) for fit in sampled]
    return [
        each._replace(launches=fit.launches, model=replace(each.model, max_k=float(fit.launches.k.max())))
        for each, fit in zip(sampled, group, strict=True)
    ]


def population(group: Sequence[JointFit], others: Sequence[KernelRecord] = ()) -> Population:
    """The population of fitted kernels, and of those of `others` that are of their group and not fitted."""
    keys = {fit.model.key for fit in group}
    similar = [kernel for kernel in others if kernel.key not in keys and (not group or kernel.key.group == _group(group[0]))]
    thetas = [*(fit.model.theta for fit in group), *(kernel.theta for kernel in similar)]
    deviations = [*(posterior_deviation(*fit) for fit in group), *(kernel.theta_deviation for kernel in similar)]
    devices = [*(fit.model.key.device for fit in group), *(kernel.device for kernel in similar)]
    return Population.of(devices, np.array(thetas), np.array(deviations))


def _group(fit: JointFit) -> tuple[str, str, int, bool]:
    return fit.model.key.group
