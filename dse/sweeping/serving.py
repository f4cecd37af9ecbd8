"""Figures of serving, of networks that generate text: time to first token, time per output token, and tokens per second."""

import json
from collections.abc import Mapping

import numpy as np
import xarray as xr

from dse.sweeping.plan import Plan


def add_variables(dataset: xr.Dataset, plan: Plan) -> xr.Dataset:
    """Add the figures of serving that are stored; NaN of networks that do not generate text, and of the other phase."""
    stored = [name for name in ("time_to_first_token", "time_per_output_token", "tokens_per_s") if name in plan.spec.store.variables]
    if not stored:
        return dataset
    is_decoding, tokens = _of_variants(dataset, _phases(dataset)) == "decode", tokens_per_run(dataset)
    derived = {
        "time_to_first_token": dataset.latency.where(~is_decoding & tokens.notnull()),
        "time_per_output_token": dataset.latency.where(is_decoding),
        "tokens_per_s": tokens / dataset.latency,
    }
    return dataset.assign({name: derived[name].transpose(*plan.dims).astype(dataset.latency.dtype) for name in stored})


def tokens_per_run(dataset: xr.Dataset) -> xr.DataArray:
    """Tokens that one run of the whole batch processes [batch, variant]; NaN of networks that do not generate text."""
    return dataset.batch * _of_variants(dataset, tokens_per_sample(dataset)).astype(float)


def tokens_per_sample(dataset: xr.Dataset) -> dict[str, int]:
    """Tokens that one run of each network that generates text processes for a sample: its prompt, or one when it decodes."""
    inputs = {name: each for name, each in _inputs(dataset).items() if "phase" in each}
    prompts = {name: each.get("sequence", each.get("target", 1)) for name, each in inputs.items()}
    return {name: 1 if each["phase"] == "decode" else int(prompts[name]) for name, each in inputs.items()}


def _phases(dataset: xr.Dataset) -> dict[str, str]:
    return {name: str(inputs["phase"]) for name, inputs in _inputs(dataset).items() if "phase" in inputs}


def _inputs(dataset: xr.Dataset) -> Mapping[str, Mapping[str, str]]:
    """What each network is run on."""
    return {name: inputs for name, inputs in json.loads(dataset.attrs.get("run_on", "{}")).items() if isinstance(inputs, dict)}


def _of_variants(dataset: xr.Dataset, by_network: Mapping[str, object]) -> xr.DataArray:
    """A number or text of each network [variant]; NaN where there is none."""
    return xr.DataArray(np.array([by_network.get(name, np.nan) for name in dataset.workload.values], object), dims="variant")
