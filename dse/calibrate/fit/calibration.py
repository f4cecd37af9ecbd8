"""Fit every kernel of some tables, each kept in a checkpoint as soon as it is fitted.

Kernels with many launches are fitted alone, then jointly. Kernels with few launches follow, if their library is known on another device
(`KernelsByFit`): the kernels of that library predict them, and those of one device are fitted together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

from tqdm import tqdm

from dse.base.progress import shows_progress
from dse.calibrate.fit.checkpoint import Checkpoint
from dse.calibrate.fit.device_effects import FewLaunches, fit_few_launches, is_predicted_by_others, predicting_kernels
from dse.calibrate.fit.discrepancy import MIN_LAUNCHES, with_discrepancy
from dse.calibrate.fit.export import build_record
from dse.calibrate.fit.intervals import half_widths_of
from dse.calibrate.fit.joint import JointFit, fit_jointly
from dse.calibrate.fit.kernel import MAX_COMPARED, MIN_SHAPES, fit_kernel, stratify
from dse.calibrate.fit.parameters import bootstrap
from dse.calibrate.predictions import check_monotone
from dse.calibrate.tables.measurement_set import MeasurementSet
from dse.model.efficiency.kernels.launches import KernelKey, KernelLaunches
from dse.model.efficiency.kernels.model import KernelModel
from dse.model.efficiency.kernels.population import Population
from dse.model.efficiency.kernels.record import KernelRecord

LaunchesByKernel = Mapping[KernelKey, KernelLaunches]


class KernelsByFit(NamedTuple):
    """Measured kernels by how they are fitted: to many launches, to few as kernels of other devices predict them, or not at all."""

    many: LaunchesByKernel
    few: LaunchesByKernel
    unfitted: LaunchesByKernel

    @classmethod
    def of(cls, launches: LaunchesByKernel, prior: Sequence[KernelRecord]) -> Self:
        """A kernel is fitted that has enough shapes, a kernel like it in the prior, or its library on another device.

        That library may be in the prior, or in the tables if the kernel has too few shapes to be fitted jointly with them. Kernels of the
        prior that are measured again do not count.
        """
        of_prior = [kernel.key for kernel in prior if kernel.key not in launches]
        groups = {key.group for key in of_prior}
        enough = {key for key, each in launches.items() if count_shapes(each) >= MIN_SHAPES}
        known = [*of_prior, *(key for key in enough if len(launches[key]) >= MIN_LAUNCHES)]
        few = {key: each for key, each in launches.items() if is_predicted_by_others(each, of_prior if key in enough else known)}
        fitted = {*few, *enough, *(key for key in launches if key.group in groups)}
        many = {key: each for key, each in launches.items() if key in fitted and key not in few}
        return cls(many, few, {key: each for key, each in launches.items() if key not in fitted})


def count_shapes(launches: KernelLaunches) -> int:
    """How many different shapes were measured."""
    return len(set(launches.shapes))


class Calibration:
    """Fits kernels, with the populations of others as prior; each fit is written to a checkpoint, and one that is there is not repeated."""

    def __init__(self, measurements: MeasurementSet, prior: Sequence[KernelRecord], checkpoint: Checkpoint, sample_count: int, seed: int):
        """`sample_count`: bootstrap samples of the parameters of each kernel, chosen by `seed`."""
        self.measurements, self.prior, self.checkpoint = measurements, prior, checkpoint
        self.sample_count, self.seed = sample_count, seed
        records = checkpoint.read()
        self._alone = {record.key: record for record in records if record.half_width is None}
        self._finished = {record.key: record for record in records if record.half_width is not None}

    def fit(self, kernels: KernelsByFit) -> dict[KernelKey, KernelRecord]:
        """The records of kernels, with their intervals."""
        count = 2 * len(kernels.many) + len(kernels.few)
        with tqdm(total=count, unit=" fits", delay=2, disable=not shows_progress()) as self._progress:
            self._fit_alone(kernels.many)
            alone = [JointFit(self._alone[key].model, each) for key, each in kernels.many.items()]
            self._finish(fit_jointly(alone, self.prior), self.prior)
            measured = {*kernels.many, *kernels.few}
            known = [*(kernel for kernel in self.prior if kernel.key not in measured), *(self._finished[key] for key in kernels.many)]
            self._fit_few(kernels.few, known)
        return self._finished

    def _fit_alone(self, kernels: LaunchesByKernel) -> None:
        for key, launches in kernels.items():
            self._progress.set_postfix_str(f"{key}, {len(launches)} launches")
            if key not in self._alone:
                self._alone[key] = build_record(JointFit(fit_alone(launches, self.prior), launches), self.measurements)
                self.checkpoint.add(self._alone[key])
            self._progress.update()

    def _fit_few(self, kernels: LaunchesByKernel, known: Sequence[KernelRecord]) -> None:
        few = [FewLaunches.predicted_by(predicting_kernels(each.key, known), each, known) for each in kernels.values()]
        for device in dict.fromkeys(key.device for key in kernels):
            self._finish(fit_few_launches([kernel for kernel in few if kernel.launches.key.device == device]), known)

    def _finish(self, fits: Iterable[JointFit], others: Sequence[KernelRecord]) -> None:
        for fit in fits:
            key = fit.model.key
            self._progress.set_postfix_str(f"{key}, intervals")
            if key not in self._finished:
                self._finished[key] = self._add_intervals(fit, others)
                self.checkpoint.add(self._finished[key])
            self._progress.update()

    def _add_intervals(self, fit: JointFit, others: Sequence[KernelRecord]) -> KernelRecord:
        sampled = bootstrap(fit.model, stratify(fit.launches, MAX_COMPARED), self.sample_count, self.seed, fit.prior, fit.noise)
        check_monotone(replace(sampled, discrepancy=None), fit.launches)
        completed = fit._replace(model=with_discrepancy(sampled, fit.launches))
        return build_record(completed, self.measurements, half_widths_of(fit, others))


def fit_alone(launches: KernelLaunches, prior: Sequence[KernelRecord]) -> KernelModel:
    """Fit a kernel by itself; one with few shapes is the mean of the kernels like it."""
    if count_shapes(launches) >= MIN_SHAPES:
        return fit_kernel(launches)
    similar = [kernel for kernel in prior if kernel.key.group == launches.key.group and kernel.key != launches.key]
    return KernelModel(launches.key, Population.of_records(similar).mean)
