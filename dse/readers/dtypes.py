"""PyTorch's number types in NumPy; `ml_dtypes` has those that NumPy lacks, under the same names."""

import ml_dtypes  # noqa: F401 - registers bfloat16 and the 8 bit floats
import numpy as np

from dse.base.errors import InputError

SHORT = {"float16": "fp16", "float32": "fp32", "float64": "fp64", "bfloat16": "bf16", "qint8": "int8", "quint8": "uint8", "qint32": "int32"}
NOT_IN_NUMPY = ("complex32", "float4_e2m1fn_x2")  # PyTorch doesn't hand them over


def short(name: str) -> str:
    """`float32` is called fp32 here; the 8 bit floats are one width, so one name."""
    return "fp8" if name.startswith("float8") else SHORT.get(name, name)


def numpy_dtype(name: str) -> np.dtype:
    """Raises InputError for a number type that an array can't hold."""
    try:
        if name in NOT_IN_NUMPY:
            raise TypeError
        return np.dtype(name)
    except TypeError as error:
        raise InputError(f"numbers of type {name} are not understood", "convert them to float32 before saving") from error
