"""Networks at a batch size or in a dtype that brackets of a result name, as in `latency[llama-3.1-8b/decode, batch=8]`.

A design has one batch size and one dtype. A result that names others is that of further networks, which are evaluated with them on every
design. Results without brackets do not count these networks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dse.base.dtype import OperandDtypes
from dse.schema.run_settings import SETTINGS, RunSettings
from dse.schema.sweep import SweepSpec


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
