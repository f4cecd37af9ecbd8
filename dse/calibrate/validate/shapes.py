"""Predicted against measured: each shape by kernels that were fitted without it."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import kendalltau

from dse.calibrate import fidelities
from dse.calibrate.fit import FEWEST_SHAPES, fit
from dse.calibrate.measured_launches import kernel_of, launches
from dse.calibrate.measured_set import MeasuredSet
from dse.calibrate.predict import probe
from dse.calibrate.uncertainty import held_out
from dse.model.efficiency.kernel_model import KernelModel
from dse.model.efficiency.launches import KernelKey, KernelLaunches

APART = 0.1  # of two measured values: what a mean error within 10% may be asked to rank
Times = dict[str, np.ndarray]


@dataclass(frozen=True)
class Point:
    """One launch or one speedup: as measured, and as predicted on each rung."""

    set: str
    split: str  # 'shapes', 'devices', the device fitted on, or 'networks'
    device: str
    kernel: str
    family: str
    dtype: str
    quantity: str
    shape: tuple[int, ...]  # of a network: its batch
    sparsity: float
    measured: float
    predicted: dict[str, float]


@dataclass(frozen=True, eq=False)
class Evidence:
    """The launches of a set, the dense kernel beside each sparse one, and the fits to all of them."""

    measured: MeasuredSet
    found: dict[KernelKey, KernelLaunches]
    dense: dict[KernelKey, KernelKey]
    fits: dict[KernelKey, KernelModel]

    @classmethod
    def of(cls, measured: MeasuredSet, devices: Collection[str] | None = None) -> "Evidence":
        """With fits to what was measured on `devices` (default: on all of them); raises ImplausibleResultError."""
        found = launches(measured)
        dense = {kernel_of(row, measured): kernel_of(other, measured) for row in measured.rows if (other := row.dense)}
        fits = {kernel: fit(seen) for kernel, seen in found.items() if _enough(seen) and (devices is None or kernel.device in devices)}
        for kernel, fitted in fits.items():
            probe(fitted, found[kernel])
        return cls(measured, found, dense, fits)

    @property
    def out_of_scope(self) -> list[str]:
        few = [kernel for kernel in self.found if kernel not in self.fits]
        return [f"{kernel}: {len(set(self.found[kernel].shapes))} shapes, fewer than {FEWEST_SHAPES}" for kernel in few]


def _enough(seen: KernelLaunches) -> bool:
    return len(set(seen.shapes)) >= FEWEST_SHAPES


def across_shapes(evidence: Evidence) -> list[Point]:
    """Times and speedups of every kernel with enough shapes, each by fits that never saw its shape."""
    times = {kernel: _left_out(evidence.found[kernel], fitted) for kernel, fitted in evidence.fits.items()}
    return points(evidence, times, "shapes")


def _left_out(seen: KernelLaunches, fitted: KernelModel) -> Times:
    times = {rung: np.zeros(len(seen)) for rung in fidelities.RUNGS}
    for out, without in held_out(fitted, seen):
        predicted = fidelities.predictions(seen, fidelities.constant_efficiency(seen, (~out).astype(float)), without)
        for rung in fidelities.RUNGS:
            times[rung][out] = predicted[rung][out]
    return times


def points(evidence: Evidence, times: dict[KernelKey, Times], split: str) -> list[Point]:
    """The times, and the speedups of those whose dense kernel is among them."""
    found = []
    for kernel, predicted in times.items():
        seen = evidence.found[kernel]
        found += _told(evidence, kernel, split, "time", seen.time, predicted)
        dense = evidence.dense.get(kernel)
        if dense in times:
            rows = [evidence.found[dense].shapes.index(shape) for shape in seen.shapes]
            speedups = {rung: times[dense][rung][rows] / predicted[rung] for rung in fidelities.RUNGS}
            found += _told(evidence, kernel, split, "speedup", evidence.found[dense].time[rows] / seen.time, speedups)
    return found


def _told(evidence: Evidence, kernel: KernelKey, split: str, quantity: str, measured: np.ndarray, predicted: Times) -> Iterator[Point]:
    seen = evidence.found[kernel]
    for row, shape in enumerate(seen.shapes):
        values = {rung: float(predicted[rung][row]) for rung in fidelities.RUNGS}
        sparsity = round(1 - float(seen.density[row]), 4)
        name = " ".join(filter(None, (kernel.kernel, kernel.release)))
        where = (evidence.measured.name, split, kernel.device, name, kernel.family, kernel.dtype, quantity, shape, sparsity)
        yield Point(*where, float(measured[row]), values)


def errors(points: Sequence[Point], rung: str) -> dict[str, float]:
    """Of the predictions: mean, median and worst size of the relative error, their mean (bias), Kendall's tau of the ranking, and
    what it is among the pairs that were measured more than `APART` from each other."""
    measured, predicted = np.array([p.measured for p in points]), np.array([p.predicted[rung] for p in points])
    off = predicted / measured - 1
    tau = float(np.asarray(kendalltau(measured, predicted))[0]) if len(set(measured)) > 1 and len(set(predicted)) > 1 else np.nan
    sizes = np.abs(off)
    return {
        "mape": float(sizes.mean()),
        "median": float(np.median(sizes)),
        "worst": float(sizes.max()),
        "bias": float(off.mean()),
        "tau": tau,
        "tau_apart": _tau_apart(np.log(measured), np.log(predicted)),
    }


def _tau_apart(measured: np.ndarray, predicted: np.ndarray) -> float:
    """Share of the pairs far enough apart that are told in their order, less that of the others; of logarithms."""
    one, other = np.triu_indices(len(measured), 1)
    far = np.abs(measured[one] - measured[other]) > np.log1p(APART)
    agree = np.sign(measured[one] - measured[other]) * np.sign(predicted[one] - predicted[other])
    return float(agree[far].mean()) if far.any() else np.nan
