"""Select networks of a search by what is in the brackets of a result: `latency[llama-3.1-8b/decode, batch=8]`.

The brackets name a workload by its key, then any of its inputs, each by its value or as NAME=VALUE, separated by '/'. Without inputs, all
networks of the workload are selected, and without a workload (`latency[batch=8]`) all networks. The name of a result, as in
`latency[llama-3.1-8b (phase=decode)]`, selects that network alone. A batch size and a dtype follow commas (`dse.schema.run_settings`).
"""

from collections.abc import Iterable, Mapping, Sequence

from dse.base.errors import InputError, did_you_mean
from dse.base.expression import split_brackets
from dse.schema.run_settings import split_run_settings
from dse.workload import Workload


def select_networks(name: str, networks: Mapping[str, Workload], keys: Sequence[str]) -> list[int]:
    """The indices of the networks that a name with brackets selects; `keys`: the key of each network's workload.

    Raises:
        InputError: the brackets name an unknown workload, or an input that no network of the workload has.
    """
    selector, _ = split_run_settings(split_brackets(name)[1] or "")
    if not selector:
        return list(range(len(networks)))
    if selector in networks:
        return [list(networks).index(selector)]
    matching = [key for key in dict.fromkeys(keys) if selector == key or selector.startswith(f"{key}/")]
    if not matching:
        known = [*keys, *networks]
        raise InputError(f"'{selector.partition('/')[0]}' in '{name}' is not a workload of this search", did_you_mean(selector, known))
    key = max(matching, key=len)
    parts = [part.strip() for part in selector[len(key) + 1 :].split("/")] if selector != key else []
    selected = [number for number, each in enumerate(keys) if each == key]
    workloads = list(networks.values())
    for part in parts:
        inputs = {text for number in selected for text in _input_texts(workloads[number])}
        selected = [number for number in selected if part in _input_texts(workloads[number])]
        if not selected:
            raise InputError(f"'{part}' in '{name}' is not an input of '{key}' in this search", _suggest(part, inputs))
    return selected


def _input_texts(workload: Workload) -> set[str]:
    """How an input of a network may be written: 'decode' and 'phase=decode'."""
    return {text for name, value in workload.all_inputs.items() for text in (str(value), f"{name}={value}")}


def _suggest(part: str, inputs: Iterable[str]) -> str:
    texts = sorted({*inputs} - {"graph", "runtime=graph"})  # which every network runs in unless it is stated
    return did_you_mean(part, texts) if texts else "it has no inputs; name the workload alone"
