"""The terms of a network on one accelerator: compulsory work, then the bytes that follow from its capacities, then its efficiency."""

from collections.abc import Sequence
from dataclasses import replace

from dse.base.dtype import OperandDtypes
from dse.model.efficiency.efficiency_file import FittedRecord
from dse.model.efficiency.fitted import FittedEfficiency
from dse.model.efficiency.protocol import ConstantEfficiency, EfficiencyModel
from dse.model.host_time import host_of
from dse.model.terms import LayerTerms, compulsory_terms, with_capacity
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions
from dse.workload import Variant


def efficiency_of(
    options: ModelOptions, kernels: Sequence[FittedRecord] = (), described: Accelerator | None = None, with_samples: bool = True
) -> EfficiencyModel:
    """The efficiency that the fidelity needs; `kernels` and `described` are those of a `FittedEfficiency`."""
    return FittedEfficiency(kernels, described, with_samples) if options.fidelity == "calibrated" else ConstantEfficiency()


def network_terms(
    accelerator: Accelerator, variant: Variant, batch: int, dtype: OperandDtypes, options: ModelOptions, efficiency: EfficiencyModel
) -> LayerTerms:
    """The terms of `variant` on `accelerator`; raises InputError, and ImplausibleResultError for a prediction that cannot be true."""
    compulsory = compulsory_terms(accelerator, variant, batch, dtype, options)
    return complete_terms(compulsory, accelerator, variant, dtype, options, efficiency)


def complete_terms(
    compulsory: LayerTerms,
    accelerator: Accelerator,
    variant: Variant,
    dtype: OperandDtypes,
    options: ModelOptions,
    efficiency: EfficiencyModel,
) -> LayerTerms:
    """Complete compulsory terms, which do not depend on capacities, for the capacities and kernels of `accelerator`."""
    terms = efficiency.apply(with_capacity(compulsory, accelerator, options), accelerator, variant, dtype)
    host = host_of(variant, terms.has_work, accelerator, options, samples=len(terms.slowed_work))
    return replace(terms, reuse=None, host=host)  # `reuse` would take memory as long as a sweep lasts
