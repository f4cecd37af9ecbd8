"""Decoders of the catalogue by the names that published tables give to them.

Case, separators, the publisher, the date, the dtype of a checkpoint and words such as 'Instruct' do not count: 'Llama3.1-8B',
'Llama-3.1-8B-FP8' and 'meta-llama/Llama-3.1-8B-Instruct' are 'llama-3.1-8b'.
"""

import difflib
import re
from functools import cache

from dse.base import catalog
from dse.base.errors import InputError
from dse.calibrate.published.table import RowLeftOut
from dse.schema.references import load_workload

_OMITTED_WORDS = r"meta|instruct|chat|base|it|hf|v0\.\d|\d{4}|\d+k|int4|int8|fp8|fp16|bf16|w\d+a\d+|awq|gptq|quantized|dynamic"
_GENERATION_INPUTS = {"phase", "sequence"}  # of networks that a table of prefills and decodes may have


@cache
def find_network(name: str) -> str:
    """The decoder of the catalogue that a name means; raises RowLeftOut if there is none, InputError for an empty name."""
    if not name:
        raise InputError("the name of the network is missing", "write it, as in 'Llama3.2-1B'", key="model")
    networks = {_normalize(network): network for network in catalog.list_names("workloads")}
    if (normal := _normalize(name)) in networks:
        if not _generates_text(networks[normal]):
            raise RowLeftOut(f"'{networks[normal]}' does not generate text")
        return networks[normal]
    (nearest,) = difflib.get_close_matches(normal[:100], networks, n=1, cutoff=0.0)
    raise RowLeftOut(f"no network '{name}' in the catalogue, did you mean '{networks[nearest]}'?")


@cache
def _generates_text(network: str) -> bool:
    return load_workload(network).all_inputs.keys() >= _GENERATION_INPUTS


def _normalize(name: str) -> str:
    words = re.sub(r"[^a-z0-9.]+", " ", name.casefold().rpartition("/")[2])
    return re.sub(rf"\b({_OMITTED_WORDS})\b|\.(?!\d)", "", words).replace(" ", "").strip(".")
