"""What every kind of efficiency does: complete the terms of a network with slowdown and overhead."""

from typing import Protocol, runtime_checkable

from dse.base.dtype import OperandDtypes
from dse.model.terms import LayerTerms
from dse.schema.accelerator import Accelerator
from dse.workload import Variant


@runtime_checkable
class EfficiencyModel(Protocol):
    """Turns the time at the speed of light into the time that is reached."""

    def apply(self, terms: LayerTerms, accelerator: Accelerator, variant: Variant, dtype: OperandDtypes) -> LayerTerms:
        """The terms with `slowdown` and `overhead`, as far as they are no constant factors of the rates."""
        ...


class ConstantEfficiency:
    """E is 1 or a number of the description, which is a factor of the rates: the terms stay as they are."""

    def apply(self, terms: LayerTerms, accelerator: Accelerator, variant: Variant, dtype: OperandDtypes) -> LayerTerms:
        return terms
