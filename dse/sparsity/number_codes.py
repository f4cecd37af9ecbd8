"""Codes of single numbers: real values as the bits of an element, a scale or a zero point, and back.

Elements are rounded to the nearest number of their dtype, ties to even, and saturate. fp8 is E4M3, fp6 is E2M3 and fp4 is E2M1 (OCP
Microscaling Formats Specification v1.0, section 5.3); tf32 is stored as fp32. Integers are two's complement, or unsigned next to a zero
point.
"""

import ml_dtypes
import numpy as np
from jaxtyping import Bool, Float, UInt

Codes = UInt[np.ndarray, " number"]
Values = Float[np.ndarray, " number"]

FLOATS = {
    "fp64": np.float64, "fp32": np.float32, "tf32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16,
    "fp8": ml_dtypes.float8_e4m3fn, "fp6": ml_dtypes.float6_e2m3fn, "fp4": ml_dtypes.float4_e2m1fn,
    "e4m3": ml_dtypes.float8_e4m3fn, "e8m0": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip


def largest_value(name: str) -> float:
    """The largest finite number of a float, or the largest magnitude of an integer that both signs have."""
    return float(ml_dtypes.finfo(FLOATS[name]).max) if name in FLOATS else 2.0 ** (int(name.removeprefix("int")) - 1) - 1


def encode_float(values: Values, name: str) -> Codes:
    """The codes of the nearest numbers; values beyond the largest one become it."""
    largest = largest_value(name)
    codes = np.clip(values, -largest, largest).astype(FLOATS[name])
    return codes.view(f"u{codes.itemsize}").astype(np.uint64)


def decode_float(codes: Codes, name: str) -> Values:
    width = np.dtype(FLOATS[name]).itemsize
    return codes.astype(f"u{width}").view(FLOATS[name]).astype(np.float64)


def encode_integer(values: Values, bits: int, is_unsigned: bool) -> Codes:
    """The codes of the nearest whole numbers: from 0 to 2^bits - 1 if unsigned, otherwise of at most `largest_value`."""
    lowest, highest = (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1) - 1), 2 ** (bits - 1) - 1)
    whole = np.clip(np.rint(values), lowest, highest).astype(np.int64)
    return (whole & (2**bits - 1)).astype(np.uint64)


def decode_integer(codes: Codes, bits: int, is_unsigned: bool) -> Values:
    whole = codes.astype(np.int64)
    return np.where((not is_unsigned) & (whole >= 2 ** (bits - 1)), whole - 2**bits, whole).astype(np.float64)


def write_codes(codes: Codes, width: int) -> Bool[np.ndarray, " bit"]:
    """The bits of codes of `width` bits each, lowest first."""
    dtype = _word(width)
    return ((codes.astype(dtype)[:, None] >> np.arange(width, dtype=dtype)) & dtype(1)).astype(bool).ravel()


def read_codes(bits: Bool[np.ndarray, " bit"], width: int) -> Codes:
    """The codes that `write_codes` wrote."""
    dtype = _word(width)
    shifted = bits.reshape(-1, width).astype(dtype) << np.arange(width, dtype=dtype)
    return shifted.sum(axis=1, dtype=dtype).astype(np.uint64)


def _word(width: int) -> type[np.unsignedinteger]:
    """The narrowest unsigned integer of NumPy with so many bits, since a matrix has many codes."""
    return next(dtype for dtype, bits in ((np.uint8, 8), (np.uint16, 16), (np.uint32, 32), (np.uint64, 64)) if width <= bits)
