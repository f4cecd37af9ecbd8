"""A fitted number with its interval, as it is stored in files of fitted kernels."""

from dse.base.strict_model import StrictModel
from dse.base.units import SourceKind


class Estimate(StrictModel):
    """A number in SI units with its 90% interval: of the measurements, or of the prior if it is `assumed`."""

    value: float
    low: float
    high: float
    unit: str
    kind: SourceKind = "measured"


def round_estimate(value: float) -> float:
    """To four significant digits, as files state estimates."""
    return float(f"{value:.4g}")
