"""Number formats: how wide an element is, and which peak of a unit computes with it."""

import re
from typing import Any

from pydantic import GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from dse.errors import suggestion
from dse.schema import Part, refusal

BITS = {
    "fp64": 64, "fp32": 32, "tf32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "fp6": 6, "fp4": 4,
    "int32": 32, "int16": 16, "int8": 8, "int4": 4,
}  # fmt: skip


def storage(name: str) -> str:
    """`fp16_acc16` (fp16 operands, fp16 accumulator) is stored as `fp16`."""
    return re.sub(r"_acc\d+$", "", name)


def accumulator(name: str) -> str:
    """What a name says of the accumulator: '_acc16' of `fp16_acc16`, nothing where it is the usual one."""
    return name.removeprefix(storage(name))


def check(name: str) -> str:
    if storage(name) not in BITS:
        raise refusal(f"unknown dtype '{name}'", suggestion(name, BITS))
    return name


class Dtype(Part):
    """The dtypes of one evaluation; a single name sets all four."""

    weights: str
    activations: str
    outputs: str
    compute: str

    @model_validator(mode="before")
    @classmethod
    def _accept_name(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"weights": storage(data), "activations": storage(data), "outputs": storage(data), "compute": data}
        if not isinstance(data, dict):
            raise refusal(f"'{data}' is not a dtype", "write a name, as in 'fp16', or {weights, activations, outputs, compute}")
        return data

    @model_validator(mode="after")
    def _check_names(self) -> "Dtype":
        for name in (self.weights, self.activations, self.outputs, self.compute):
            check(name)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "examples": ["fp16"]}, handler.resolve_ref_schema(handler(schema))]}

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        stored = (self.weights, self.activations, self.outputs)
        if set(stored) == {storage(self.compute)}:
            return self.compute
        return ",".join(f"{role}={name}" for role, name in self)

    def bytes(self, role: str) -> float:
        """Bytes per element of `weights`, `activations` or `outputs`."""
        return BITS[storage(getattr(self, role))] / 8
