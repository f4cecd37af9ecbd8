"""Devices, kernels and small networks for tests of the fidelity `calibrated`."""

import numpy as np

import dse
from dse.model.efficiency.efficiency_file import shipped_kernels
from dse.networks.layers import LayerArrays, LayerRow
from dse.schema.model_options import ModelOptions
from dse.sparsity.grammar import parse
from dse.workload import Variant

A100, RTX3090, H100 = (dse.load_accelerator(name) for name in ("a100-sxm4-80gb", "rtx3090", "h100-sxm5-80gb"))
KERNELS = shipped_kernels()
CALIBRATED = ModelOptions(fidelity="calibrated")


def variant(rows: list[dict], pattern: str = "dense", density: float = 1.0) -> Variant:
    layers = LayerArrays.from_rows([LayerRow.model_validate({"name": f"l{n}", **row}) for n, row in enumerate(rows)])
    return Variant("network", layers, "method", parse(pattern), 1 - density, np.where(layers.prunable, density, 1.0))


def gemm(m: int, k: int, n: int) -> dict:
    return {"kind": "gemm", "m": m, "k": k, "n": n}


def latency(device, state, fidelity="calibrated", batch=1, **options):
    return dse.evaluate(device, state, batch=batch, fidelity=fidelity, **options).latency.values
