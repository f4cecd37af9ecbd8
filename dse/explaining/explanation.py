"""The result of `dse.explain`."""

from dataclasses import asdict

import pandas as pd

from dse.explaining.parts import ExplainedDifference, Part
from dse.explaining.text import format_explanation


class Explanation(ExplainedDifference):
    """Why a quantity differs between two sides, or why a sparse network is not as fast as its pattern allows.

    Attributes:
        quantity: `latency`, `speedup`, `energy`, `area` or `power`; `unit` is its SI unit.
        a, b: descriptions of the two sides; `ideal ...` for the ideal speedup of a pattern.
        value_a, value_b: the quantity on both sides. The parts add up to `value_b - value_a`.
        parts: the part of each factor, the largest first.
        groups: layer groups, the largest difference first; latencies of the dense and the sparse network where the ideal is explained.
        resources: time by what bounds it, on both sides.
        reach: what would have to change for a target speedup, if one was given.
        sentence: the answer in one sentence.
        without_effect: what differs, but does not change the quantity.
        method: `exact`, or how many orders of the factors were sampled.

    Examples:
        >>> import dse
        >>> why = dse.explain("a100-sxm4-80gb, llama-2-7b, phase=decode, 2:4")
        >>> print(why.sentence)
        2:4 gains 1.58x, not 2x: ...
        >>> abs(sum(part.value for part in why.parts) - (why.value_b - why.value_a)) < 1e-9
        True
    """

    def to_pandas(self) -> pd.DataFrame:
        """The parts as a table, one row for each."""
        return pd.DataFrame([asdict(part) for part in self.parts], columns=list(Part.__dataclass_fields__))

    def __str__(self) -> str:
        return format_explanation(self, "table")
