"""Predicted against measured: each device by kernels that were fitted on others. Its data sheet is all that is known of the machine."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dse.base.dtype import BITS_PER_ELEMENT, storage_dtype
from dse.calibrate import fidelities
from dse.calibrate.export import describe
from dse.calibrate.validate.shapes import Evidence, Point, points
from dse.model.efficiency import kernel_selection
from dse.model.efficiency.kernel_file import KernelRecord
from dse.model.efficiency.kernel_model import KernelModel
from dse.model.efficiency.launches import KernelKey, KernelLaunches


class Source(NamedTuple):
    """A kernel as `dse calibrate` would write it, its fit, and what that was fitted to."""

    written: KernelRecord
    fitted: KernelModel
    known: KernelLaunches


def sources_of(evidence: Iterable[Evidence]) -> list[Source]:
    """Every kernel that was fitted to some of it."""
    return [
        Source(describe(fitted, each.found[kernel], each.measured), fitted, each.found[kernel])
        for each in evidence
        for kernel, fitted in each.fits.items()
    ]


def across_devices(evidence: Evidence, sources: Sequence[Source]) -> list[Point]:
    """Times and speedups of every kernel, by fits on all other devices together, then on each of them alone."""
    found = _by(sources, evidence, "devices")
    for device in sorted({source.written.device for source in sources}):
        found += _by([source for source in sources if source.written.device == device], evidence, device)
    return found


def _by(sources: Sequence[Source], evidence: Evidence, split: str) -> list[Point]:
    times = {}
    for kernel, seen in evidence.found.items():
        if source := _nearest(kernel, seen, [source for source in sources if source.written.device != kernel.device]):
            times[kernel] = fidelities.predictions(seen, fidelities.constant_efficiency(source.known), source.fitted)
    return points(evidence, times, split)


def _nearest(kernel: KernelKey, seen: KernelLaunches, sources: Sequence[Source]) -> Source | None:
    """The one that a prediction would take for this kernel, of those of its name for values as wide; dense products are the same
    kernel, whatever a device calls its library."""
    named = [s for s in sources if s.written.family == kernel.family and (kernel.family == "dense" or s.written.kernel == kernel.kernel)]
    width = BITS_PER_ELEMENT[storage_dtype(kernel.precision.compute)]
    alike = [s.written for s in named if s.written.bits == width]
    if not alike:
        return None
    first = kernel_selection.elsewhere(
        alike, [s.written for s in sources], kernel.device, kernel.unit, kernel.precision.compute, seen.rates
    )[0]
    return next(s for s in named if s.written is first)
