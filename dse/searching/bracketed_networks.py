"""The networks that the brackets of a result name, as in `latency[llama-3.1-8b/decode, batch=8]`.

The brackets name a workload by its key, then any of its inputs, each by its value or as NAME=VALUE, separated by '/'. Without inputs, all
networks of the workload are selected, and without a workload (`latency[batch=8]`) all networks. The name of a result, as in
`latency[llama-3.1-8b (phase=decode)]`, selects that network alone. A batch size and a dtype follow commas (`dse.schema.run_settings`).

A design has one batch size and one dtype. A result that names others is that of further networks, which are evaluated with them on every
design. Results without brackets do not count these networks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError, did_you_mean
from dse.base.expression import split_brackets
from dse.schema.run_settings import SETTINGS, RunSettings, split_run_settings
from dse.schema.sweep import SweepSpec
from dse.workload import Workload


@dataclass(frozen=True)
class FixedRun:
    """A network at fixed settings; `network`: the name of the same network at those of the design."""

    network: str
    settings: RunSettings

    @property
    def name(self) -> str:
        """The name in results, as in 'bert-base (sequence=128), batch=8'."""
        return f"{self.network}, {self.settings}"


@dataclass(frozen=True)
class Brackets:
    """The indices of the networks of each result with brackets, and the networks with fixed settings, which follow all others."""

    selections: Mapping[str, Sequence[int]] = field(default_factory=dict)
    fixed_runs: Mapping[str, FixedRun] = field(default_factory=dict)


def list_dtypes(spec: SweepSpec) -> tuple[OperandDtypes, ...]:
    """The dtypes of a specification, and those in brackets of results, each once."""
    named = () if spec.search is None else spec.search.named_dtypes
    return tuple(dict.fromkeys((*spec.dtype, *named)))


def chosen_settings(spec: SweepSpec) -> list[str]:
    """The settings that a search chooses: those of which several are listed, unless each result names its own."""
    return [name for name in SETTINGS if len(getattr(spec, name)) > 1 and (spec.search is None or spec.search.leaves_to_design(name))]


def fixed_settings(spec: SweepSpec, settings: RunSettings) -> RunSettings:
    """Settings without those that every design has anyway."""
    chosen = chosen_settings(spec)
    is_fixed = {name: name in chosen or getattr(settings, name) != getattr(spec, name)[0] for name in SETTINGS}
    return RunSettings(settings.batch if is_fixed["batch"] else None, settings.dtype if is_fixed["dtype"] else None)


def add_fixed_runs(networks: Sequence[str], selections: Mapping[str, Sequence[int]], settings: Mapping[str, RunSettings]) -> Brackets:
    """Replace the `networks` that a result selects by those with its settings, where it has any."""
    runs: dict[FixedRun, int] = {}
    indices = {}
    for result, selected in selections.items():
        if settings[result] == RunSettings():
            indices[result] = list(selected)
            continue
        own = [FixedRun(networks[number], settings[result]) for number in selected]
        indices[result] = [runs.setdefault(run, len(networks) + len(runs)) for run in own]
    return Brackets(indices, {run.name: run for run in runs})


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
