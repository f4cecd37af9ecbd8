"""The discrepancy of a kernel as efficiencies.yaml stores it: its parameters, and one line of text for each measured launch."""

import numpy as np
from pydantic import Field, model_validator

from dse.base.strict_model import StrictModel, field_error
from dse.model.efficiency.discrepancy import SIZES, Discrepancy
from dse.model.efficiency.estimate import round_estimate

LEAST = 1e-6  # standard deviation, so that repeated launches do not contradict each other
COLUMNS = (*SIZES, "log(measured / predicted time)")


class DiscrepancyRecord(StrictModel):
    """Lengths [doublings] and standard deviations of a Gaussian process, and the launches that determine it."""

    lengths: tuple[float, ...] = Field(
        min_length=4, max_length=4, description="in which the correlation falls to 1/e, for m, k, n and the density [doublings]"
    )
    deviation: float = Field(ge=LEAST, description="standard deviation of the logarithm of a time far from all launches")
    noise: float = Field(ge=LEAST, description="of the logarithm of a single measured time")
    own: float = Field(0.0, ge=0, description="of what the device adds, where the launches are those of its library on other devices")
    half_width: float = Field(ge=0, description="of the 90% interval of the logarithm of a time far from all launches")
    launches: str = Field(description="m, k, n, density and log(measured / predicted time) of a launch in each line")

    @model_validator(mode="after")
    def _check_launches(self) -> "DiscrepancyRecord":
        if min(self.lengths) <= 0:
            raise field_error("a length is not positive", "fit the measurements again with 'dse calibrate'")
        for line in self.launches.splitlines():
            if not _is_row(line):
                raise field_error(f"'{line[:60]}' is not a launch", "write five numbers: " + ", ".join(COLUMNS))
        return self

    @classmethod
    def of(cls, discrepancy: Discrepancy, half_width: float) -> "DiscrepancyRecord":
        """The record of a fitted discrepancy."""
        rows = zip(np.exp2(discrepancy.sizes), discrepancy.log_ratios, strict=True)
        lines = [" ".join([*(f"{size:.10g}" for size in sizes), f"{ratio:.4f}"]) for sizes, ratio in rows]
        return cls(
            lengths=tuple(map(round_estimate, discrepancy.lengths)),
            deviation=max(LEAST, round_estimate(discrepancy.deviation)), noise=max(LEAST, round_estimate(discrepancy.noise)),
            own=round_estimate(discrepancy.own), half_width=half_width,
            launches="\n".join(lines) + "\n",
        )  # fmt: skip

    def discrepancy(self) -> Discrepancy:
        """The discrepancy as predictions use it."""
        rows = np.array(self.launches.split(), float).reshape(-1, len(COLUMNS))
        return Discrepancy(np.log2(rows[:, :-1]), rows[:, -1], np.array(self.lengths), self.deviation, self.noise, self.own)


def _is_row(line: str) -> bool:
    try:
        values = [float(text) for text in line.split()]
    except ValueError:
        return False
    return len(values) == len(COLUMNS) and min(values[:-1]) > 0 and bool(np.isfinite(values).all())
