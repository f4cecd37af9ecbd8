"""Predicted latencies of the layers of a network that was measured, under each fidelity."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from dse.base.dtype import OperandDtypes
from dse.model.efficiency.efficiency_file import available_kernels
from dse.model.efficiency.fitted import select_for_variant
from dse.model.executions import list_executions
from dse.model.layer_times import latency_samples
from dse.model.network_terms import efficiency_of, network_terms
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import Fidelity, ModelOptions
from dse.workload import Variant


def predict_layers(
    device: Accelerator, variant: Variant, batch: int, dtype: OperandDtypes, fidelity: Fidelity
) -> Float[np.ndarray, "sample layer"]:
    """Latency of all repeats of each layer [s]; the first sample is the best estimate, the others are those of fitted kernels.

    Under `r3` with constant efficiencies: as described, else the mean of the kernel that `calibrated` selects first.
    """
    device = _with_constant_efficiencies(device, variant, dtype) if fidelity == "r3" else device
    options = ModelOptions.model_validate({"fidelity": fidelity})
    terms = network_terms(device, variant, batch, dtype, options, efficiency_of(options, available_kernels(device, options)))
    return latency_samples(terms, device, options)


def _with_constant_efficiencies(device: Accelerator, variant: Variant, dtypes: OperandDtypes) -> Accelerator:
    """The device with an efficiency at each run."""
    data: Any = copy.deepcopy(device.document.data)
    kernels = available_kernels(device, ModelOptions.model_validate({"fidelity": "calibrated"}))
    for execution in list_executions(device, dtypes, "r3"):
        run = data["units"][execution.unit].setdefault("runs", {}).setdefault(execution.run_name, {"pattern": "dense"})
        if "efficiency" in run:
            continue
        selection = select_for_variant(execution, variant, device, dtypes, kernels)
        run["efficiency"] = selection.kernels[0].constant / selection.slowdown_over_dense
    return Accelerator.from_document(replace(device.document, data=data))
