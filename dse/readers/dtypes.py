"""Number types of the file formats: their names in this package, and in NumPy.

Here `float32` is called fp32, as in accelerator descriptions; all 8 bit floats are fp8, since they have one width.
"""

import ml_dtypes  # registers bfloat16 and the 8 bit floats, which NumPy lacks
import numpy as np

from dse.base.errors import InputError

# Name in the header of a safetensors file -> name here, type in NumPy.
SAFETENSORS_DTYPES = {
    "F64": ("fp64", np.float64), "F32": ("fp32", np.float32), "F16": ("fp16", np.float16), "BF16": ("bf16", ml_dtypes.bfloat16),
    "F8_E4M3": ("fp8", ml_dtypes.float8_e4m3fn), "F8_E5M2": ("fp8", ml_dtypes.float8_e5m2),
    "F8_E8M0": ("fp8", ml_dtypes.float8_e8m0fnu), "BOOL": ("bool", np.bool_),
    "I64": ("int64", np.int64), "I32": ("int32", np.int32), "I16": ("int16", np.int16), "I8": ("int8", np.int8), "U8": ("uint8", np.uint8),
}  # fmt: skip

# Name in the enumeration DataType of ONNX -> name here, bits.
ONNX_DTYPES = {
    "FLOAT": ("fp32", 32), "DOUBLE": ("fp64", 64), "FLOAT16": ("fp16", 16), "BFLOAT16": ("bf16", 16),
    "FLOAT8E4M3FN": ("fp8", 8), "FLOAT8E4M3FNUZ": ("fp8", 8), "FLOAT8E5M2": ("fp8", 8), "FLOAT8E5M2FNUZ": ("fp8", 8),
    "FLOAT8E8M0": ("fp8", 8), "FLOAT6E2M3": ("fp6", 6), "FLOAT6E3M2": ("fp6", 6), "FLOAT4E2M1": ("fp4", 4),
    "INT64": ("int64", 64), "UINT64": ("uint64", 64), "INT32": ("int32", 32), "UINT32": ("uint32", 32),
    "INT16": ("int16", 16), "UINT16": ("uint16", 16), "INT8": ("int8", 8), "UINT8": ("uint8", 8),
    "INT4": ("int4", 4), "UINT4": ("uint4", 4), "INT2": ("int2", 2), "UINT2": ("uint2", 2), "BOOL": ("bool", 8),
}  # fmt: skip

# Number in the enumeration ScalarType of torch/_export/serde/schema.py -> name in PyTorch.
TORCH_SCALAR_TYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 9: "complex32", 10: "complex64",
    11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}  # fmt: skip

_TORCH_NAMES = {
    "float16": "fp16", "float32": "fp32", "float64": "fp64", "bfloat16": "bf16", "qint8": "int8", "quint8": "uint8", "qint32": "int32",
}  # fmt: skip
_NOT_IN_NUMPY = ("complex32", "float4_e2m1fn_x2")  # PyTorch does not convert them to NumPy


def dtype_name(name: str) -> str:
    """The name here of a number type of PyTorch or NumPy."""
    return "fp8" if name.startswith("float8") else _TORCH_NAMES.get(name, name)


def torch_dtype_in_numpy(name: str) -> np.dtype:
    """The type in NumPy of a number type of PyTorch; raises InputError if there is none."""
    try:
        if name in _NOT_IN_NUMPY:
            raise TypeError
        return np.dtype(name)
    except TypeError as error:
        raise InputError(f"numbers of type {name} cannot be read", "convert them to float32 before saving") from error
