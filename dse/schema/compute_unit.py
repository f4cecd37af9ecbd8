"""The schema of a compute unit: its dense peaks by dtype, with the runs that it supports."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError

from dse.base.dtype import BITS_PER_ELEMENT, storage_dtype
from dse.base.errors import did_you_mean
from dse.base.strict_model import KeyPath, StrictModel, field_error, nested_field_errors
from dse.base.units import (
    Capacity,
    Count,
    EnergyPerOperation,
    Frequency,
    MultiplyAdds,
    Rate,
)
from dse.schema.unit_run import EXPANDED_SUFFIX, Run
from dse.sparsity.kinds import DENSE

IDENTIFIER = r"^[a-z0-9_]+$"  # a part of a dotted path
Identifier = Annotated[str, StringConstraints(pattern=IDENTIFIER)]


def _require_peak_or_macs(schema: JsonSchemaValue) -> None:
    schema.pop("required")
    schema["anyOf"] = [{"required": ["peak"]}, {"required": ["macs"]}]


class Unit(StrictModel):
    """A compute unit: dense peaks by dtype, and the patterns that it runs beyond dense."""

    model_config = ConfigDict(json_schema_extra=_require_peak_or_macs)

    peak: dict[Identifier, Rate] = Field(
        min_length=1,
        description="dense peak rate by dtype; a multiply-add counts as 2; it may follow from 'macs'",
        examples=["{fp16: 312 TFLOP/s}"],
    )
    clock: Frequency | None = Field(
        None, description="clock at which the peaks are reached; default, for area and power: that of published boards in the process"
    )
    max_clock: Frequency | None = Field(
        None, description="highest clock, at which it runs where power allows, under 'calibrated'; default: 'clock'", examples=["2.655 GHz"]
    )
    macs: dict[Identifier, MultiplyAdds] = Field(
        default_factory=dict,
        description="multiply-adds of one processor in a cycle, by dtype; gives the peak, 2 FLOP x macs x processors x clock",
        examples=["{fp16: 1024, int8: 2048}"],
    )
    runs: dict[Identifier, Run] = Field(
        default_factory=dict,
        description="patterns that it runs faster than dense, by name",
        examples=['{sparse_24: {pattern: "2:4", gain: 2}}'],
    )
    energy: dict[Identifier, EnergyPerOperation] = Field(
        default_factory=dict, description="of an operation, by dtype; default: of the cost model", examples=["{fp16: 0.5 pJ/FLOP}"]
    )
    processors: Count | None = Field(
        None, description="cores that share the tiles of a launch; under 'calibrated', tiles are executed in waves of this many"
    )
    scratchpad: Capacity | None = Field(None, description="on-chip memory of one processor, in which its tiles stage their operands")
    issue: Rate | None = Field(
        None, description="fp32 rate if every instruction issued were a multiply-add; loads and index arithmetic share it"
    )

    def clock_headroom(self, described: "Unit") -> float:
        """The highest clock over that at which the unit is described to reach its peaks, at least 1 [1]."""
        return 1.0 if self.max_clock is None or described.clock is None else max(1.0, self.max_clock.value / described.clock.value)

    @model_validator(mode="after")
    def _check_clocks(self) -> Self:
        if self.max_clock is not None and self.clock is not None and self.max_clock.value < self.clock.value:
            raise field_error("'max_clock' is below the clock of the peaks", "write the highest clock that the unit reaches")
        return self

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        errors: list[tuple[KeyPath, PydanticCustomError]] = [
            (("peak", name), field_error(f"unknown dtype '{name}'", did_you_mean(name, BITS_PER_ELEMENT)))
            for name in self.peak
            if storage_dtype(name) not in BITS_PER_ELEMENT and name not in self.macs
        ]
        errors += [
            (("macs", name), field_error(f"unknown dtype '{name}'", did_you_mean(name, BITS_PER_ELEMENT)))
            for name in self.macs
            if storage_dtype(name) not in BITS_PER_ELEMENT
        ]
        for name in self.energy.keys() - self.peak.keys():
            errors.append((("energy", name), field_error(f"the unit has no peak for '{name}'", did_you_mean(name, self.peak))))
        for name, run in self.runs.items():
            errors += [(("runs", name, *loc), error) for loc, error in self._run_errors(name, run)]
        if errors:
            raise nested_field_errors("Unit", errors)
        return self

    def _run_errors(self, name: str, run: Run) -> list[tuple[KeyPath, PydanticCustomError]]:
        errors: list[tuple[KeyPath, PydanticCustomError]] = []
        if run.expanded != "none" and name + EXPANDED_SUFFIX in self.runs:
            message = f"'{name + EXPANDED_SUFFIX}' names the expanded execution of '{name}'"
            errors.append((("expanded",), field_error(message, "give the other run another name")))
        if name == "dense" and run.pattern != DENSE:
            errors.append(((), field_error(f"a run named 'dense' runs the pattern dense, not '{run.pattern}'", "give it another name")))
        for index, dtype in enumerate(run.dtypes or ()):
            if dtype not in self.peak:
                fix = f"add one, or write another dtype; {did_you_mean(dtype, self.peak)}"
                errors.append((("dtypes", index), field_error(f"the unit has no peak for '{dtype}'", fix)))
        return errors
