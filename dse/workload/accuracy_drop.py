"""A stated accuracy drop: in points of the metric, or in % of the accuracy of the dense network."""

import math
import re
from dataclasses import dataclass

from dse.base.errors import InputError

MAX_DROP = 1e6
_FORM = re.compile(r"(\S+?)\s*(%|points?)?")
FIX = "write a number of at least 0, in points of the metric as in '0.5', or in % of the dense network as in '1 %'"


@dataclass(frozen=True)
class AccuracyDrop:
    """A drop of at least 0, whichever way of the metric is better: in points of it, or in % of the dense accuracy if `relative`."""

    value: float
    relative: bool = False

    def in_unit(self, relative: bool, dense_accuracy: float) -> float:
        """The drop in %, if `relative`, or in points; NaN if this needs the accuracy of the dense network, and that is not known (NaN)."""
        if self.relative == relative:
            return self.value
        percent = abs(dense_accuracy) / 100
        return self.value * percent if self.relative else self.value / percent if percent else math.nan

    def accuracy(self, dense_accuracy: float, direction: str) -> float:
        """The accuracy after the drop; NaN if that of the dense network is not known. `direction`: which way of the metric is better."""
        points = self.in_unit(False, dense_accuracy)
        return dense_accuracy - points if direction == "higher" else dense_accuracy + points

    def __str__(self) -> str:
        """'1 %', '0.5 points' or '1 point', to four digits."""
        return f"{self.value:.4g} " + ("%" if self.relative else "point" if self.value == 1 else "points")

    @property
    def exact_text(self) -> str:
        """The text that `parse_accuracy_drop` reads back as this drop."""
        return f"{self.value!r} {'%' if self.relative else 'points'}"


def parse_accuracy_drop(value: object) -> AccuracyDrop:
    """Read a drop: a number or text, in points, or text in %; raises InputError."""
    match = None if isinstance(value, bool) else _FORM.fullmatch(str(value).strip())
    try:
        drop = float(match[1]) if match else math.nan
    except ValueError:
        drop = math.nan
    if match is None or not math.isfinite(drop):
        raise InputError(f"'{value}' is not a valid accuracy drop", FIX)
    if not 0 <= drop <= MAX_DROP:
        raise InputError(f"an accuracy drop of {value} is out of range", FIX)
    return AccuracyDrop(drop, match[2] == "%")
