"""The dtypes of the operands of one evaluation, by role.

An operand may be stored in a format with scales (`dse.base.number_format`), in which no unit computes: kernels compute with its elements,
or with what they convert these to.
"""

import re
from functools import cache, lru_cache

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from dse.base.errors import did_you_mean
from dse.base.number_format import BITS_PER_ELEMENT, NumberFormat, is_number_format, number_format
from dse.base.strict_model import StrictModel, field_error

STORED_ROLES = ("weights", "activations", "outputs")
OPTIONAL_ROLES = ("elementwise", "cache")


@lru_cache(maxsize=1024)  # checks of a table call it several times a row
def storage_dtype(name: str) -> str:
    """The dtype in memory: `fp16_acc16` (fp16 operands, fp16 accumulator) is stored as `fp16`."""
    return re.sub(r"_acc\d+$", "", name)


def check_dtype_name(name: str, role: str = "weights") -> None:
    """Raise a validation error unless `name` is a known dtype, with or without an accumulator, or a format with scales."""
    number_format(storage_dtype(name) if storage_dtype(name) in BITS_PER_ELEMENT else name, role)


def is_format_with_scales(name: str) -> bool:
    """Whether a name is that of a format of operands, which a unit does not compute in."""
    return is_number_format(name) and not number_format(name, "cache").is_plain


def _check_is_computed_in(name: str) -> None:
    """Raise a validation error for a format of operands that no unit computes in."""
    if is_format_with_scales(name):
        element = number_format(name, "cache").element
        fix = f"write '{element} weights={name} activations={name} outputs=bf16', as far as it applies"
        raise field_error(f"'{name}' is a format of operands, in which no unit computes", fix)


def parse_roles(text: str) -> dict[str, str]:
    """Parse the dtype of each role: one name for all roles, then the exceptions, as in `int8 outputs=int32 elementwise=bf16`.

    Raises a validation error; the names of dtypes are not checked here.
    """
    name, *exceptions = text.split() or [text]
    if "=" in name:
        raise field_error(
            f"'{text}' does not begin with the name of a dtype", "begin with the dtype of most roles, as in 'int8 outputs=int32'"
        )
    roles: dict[str, str] = dict.fromkeys(STORED_ROLES, storage_dtype(name)) | {"compute": name}
    seen = set[str]()
    for exception in exceptions:
        role, equals, value = exception.partition("=")
        if not equals:
            raise field_error(f"'{exception}' names no role", "write 'ROLE=NAME' after the first name, as in 'int8 outputs=int32'")
        if role not in (*roles, *OPTIONAL_ROLES):
            raise field_error(f"unknown role '{role}' of a dtype", did_you_mean(role, [*roles, *OPTIONAL_ROLES]))
        if role in seen:
            raise field_error(f"'{role}' is given twice in '{text}'", "keep one of each role")
        seen.add(role)
        roles[role] = value
    _check_is_computed_in(roles["compute"])
    return roles


class OperandDtypes(StrictModel):
    """The dtypes of the operands of one evaluation, and the dtype whose peak computes with them (`compute`).

    A single name sets all four; `int8 outputs=int32` sets all but the outputs. Products with weights have the dtypes `weights`,
    `activations` and `outputs`. What runs between them (normalisation, attention) reads and writes `elementwise`; default: it reads
    `activations` and writes `outputs`, as if the products converted them. Keys and values of earlier tokens are stored as `cache`; default:
    as what attention reads.
    """

    weights: str = Field(description="dtype of the weights in memory", examples=["int8"])
    activations: str = Field(description="dtype of the inputs of a layer", examples=["int8"])
    outputs: str = Field(description="dtype of the outputs of a layer", examples=["int32"])
    compute: str = Field(description="dtype whose peak computes; a suffix names the accumulator", examples=["int8"])
    elementwise: str | None = Field(
        None, description="dtype between the products with weights; default: they convert it", examples=["bf16"]
    )
    cache: str | None = Field(
        None, description="dtype of the key-value cache; default: 'elementwise', otherwise 'activations'", examples=["fp8"]
    )

    @model_validator(mode="before")
    @classmethod
    def _accept_name(cls, data: object) -> object:
        if isinstance(data, str):
            return parse_roles(data)
        if not isinstance(data, dict):
            raise field_error(f"'{data}' is not a dtype", "write a name, as in 'fp16', or {weights, activations, outputs, compute}")
        return data

    @model_validator(mode="after")
    def _check_names(self) -> "OperandDtypes":
        for role, name in self:
            if name is not None:
                check_dtype_name(name, role)
        _check_is_computed_in(self.compute)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, object]:
        return {"anyOf": [{"type": "string", "examples": ["fp16"]}, handler.resolve_ref_schema(handler(schema))]}

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """The label in results: one name if all roles agree, otherwise every role with its dtype."""
        stored = {name for role, name in self if role != "compute" and name is not None}
        if stored == {storage_dtype(self.compute)}:
            return self.compute
        return ",".join(f"{role}={name}" for role, name in self if name is not None)

    @property
    def text(self) -> str:
        """The shortest text that `parse_roles` reads: the name of `compute`, then the roles with another dtype."""
        stored = {role: storage_dtype(getattr(self, role)) for role in STORED_ROLES}
        others = {role: name for role, name in stored.items() if name != storage_dtype(self.compute)}
        others |= {role: name for role in OPTIONAL_ROLES if (name := getattr(self, role))}
        return " ".join([self.compute, *(f"{role}={name}" for role, name in others.items())])

    def number_format(self, role: str) -> NumberFormat:
        """The number format of `weights`, `activations`, `outputs`, `elementwise` or `cache`."""
        name = self.cache or self.elementwise or self.activations if role == "cache" else getattr(self, role)
        return number_format(storage_dtype(name), role)

    def bytes_per_element(self, role: str) -> float:
        """Mean bytes per element of `weights`, `activations`, `outputs`, `elementwise` or `cache`, with the scales of large matrices."""
        return self.number_format(role).mean_bits / 8

    def bytes_between_products(self, role: str) -> float:
        """Bytes per element of what runs between the products with weights, as it reads `activations` or writes `outputs`."""
        return self.bytes_per_element(role if self.elementwise is None else "elementwise")


@cache
def parse_dtype(text: str) -> OperandDtypes:
    """Parse the dtypes that a text states; raises pydantic's ValidationError if it is invalid."""
    return OperandDtypes.model_validate(text)


def shorten_label(label: str) -> str:
    """A label of results as a specification states it: 'fp8 outputs=bf16' of 'weights=fp8,activations=fp8,outputs=bf16,compute=fp8'."""
    roles = dict(part.split("=") for part in label.split(",") if "=" in part)
    if "compute" not in roles:
        return label
    compute = roles.pop("compute")
    return " ".join([compute, *(f"{role}={name}" for role, name in roles.items() if name != storage_dtype(compute))])
