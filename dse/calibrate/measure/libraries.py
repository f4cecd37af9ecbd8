"""Kernels of the installed libraries: how each stores a matrix A and multiplies it by B."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from jaxtyping import Float

from dse.calibrate.measure.timing import Call

Matrix = Float[np.ndarray, "rows columns"]
PrepareCall = Callable[[Matrix], Call]  # B [k, n] in float32 -> a call that computes A B
StoreMatrix = Callable[[Matrix], PrepareCall]  # A [m, k] in float32, with its zeros


GPU_DTYPES = {"dense": ("fp16", "fp32"), "unstructured": ("fp16", "fp32"), "2:4": ("fp16",), "block:64x64": ("fp16",)}
"""The dtypes in which kernels of each pattern are timed on a GPU."""


@dataclass(frozen=True)
class LibraryKernel:
    """One kernel of one library; the sizes of A have to be multiples of `granularity` (rows, columns)."""

    name: str
    release: str
    pattern: str
    dtype: str
    store: StoreMatrix
    unit: str | None = None
    granularity: tuple[int, int] = (1, 1)


def has_cuda() -> bool:
    """Whether PyTorch is installed and finds a GPU."""
    if find_spec("torch") is None:
        return False
    import torch  # pyright: ignore[reportMissingImports]

    return bool(torch.cuda.is_available())


def list_kernels(cuda: bool) -> list[LibraryKernel]:
    """The installed kernels for the GPU or the CPU."""
    return list(_gpu_kernels() if cuda else _cpu_kernels())


def _cpu_kernels() -> Iterator[LibraryKernel]:
    import scipy.sparse as sp

    scipy = f"scipy {version('scipy')}"
    yield LibraryKernel("numpy", f"numpy {np.__version__}", "dense", "fp32", lambda a: lambda b: lambda: a @ b)
    yield LibraryKernel("jax", f"jax {version('jax')}", "dense", "fp32", _store_in_jax)
    yield LibraryKernel("scipy csr", scipy, "unstructured", "fp32", lambda a: _multiply(sp.csr_array(a)))
    yield LibraryKernel(
        "scipy bsr", scipy, "block:16x16", "fp32", lambda a: _multiply(sp.bsr_array(a, blocksize=(16, 16))), granularity=(16, 16)
    )
    if find_spec("torch"):
        torch = f"torch {version('torch')}"
        yield LibraryKernel("torch", torch, "dense", "fp32", _store_in_torch("cpu", "float32", lambda a: a))
        yield LibraryKernel("torch csr", torch, "unstructured", "fp32", _store_in_torch("cpu", "float32", lambda a: a.to_sparse_csr()))


def _multiply(a: Any) -> PrepareCall:
    return lambda b: lambda: a @ b


def _store_in_jax(a: Matrix) -> PrepareCall:
    import jax
    import jax.numpy as jnp

    left, multiply = jnp.asarray(a), jax.jit(jnp.matmul)

    def prepare(b: Matrix) -> Call:
        right = jnp.asarray(b)
        return lambda: multiply(left, right).block_until_ready()

    return prepare


def _gpu_kernels() -> Iterator[LibraryKernel]:
    """Kernels that PyTorch calls; there 2:4 matrices need sizes in multiples of 32 x 64, and CUTLASS supports Ampere and Ada only."""
    import torch  # pyright: ignore[reportMissingImports]
    from torch.sparse import semi_structured  # pyright: ignore[reportMissingImports]

    release = f"torch {version('torch')}, CUDA {torch.version.cuda}"
    two_four: dict[str, Any] = {"cuSPARSELt": semi_structured.SparseSemiStructuredTensorCUSPARSELT}
    if torch.cuda.get_device_capability()[0] == 8:
        two_four["CUTLASS"] = semi_structured.SparseSemiStructuredTensorCUTLASS
    for dtype in GPU_DTYPES["dense"]:
        torch_dtype = {"fp16": "float16", "fp32": "float32"}[dtype]
        yield LibraryKernel("cuBLAS", release, "dense", dtype, _store_in_torch("cuda", torch_dtype, lambda a: a))
        csr = _store_in_torch("cuda", torch_dtype, lambda a: a.to_sparse_csr())
        yield LibraryKernel("cuSPARSE csr", release, "unstructured", dtype, csr, "cuda_core")
    for name, tensor_class in two_four.items():
        store = _store_in_torch("cuda", "float16", tensor_class.from_dense)
        yield LibraryKernel(name, release, "2:4", "fp16", store, granularity=(32, 64))
    blocks = _store_in_torch("cuda", "float16", lambda a: a.to_sparse_bsr((64, 64)))
    yield LibraryKernel("Triton bsr", release, "block:64x64", "fp16", blocks, granularity=(64, 64))


def _store_in_torch(device: str, dtype: str, convert: Callable[[Any], Any]) -> StoreMatrix:
    import torch  # pyright: ignore[reportMissingImports]

    def store(a: Matrix) -> PrepareCall:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # sparse matrices are a beta feature
            left = convert(torch.from_numpy(a).to(device, getattr(torch, dtype)))

        def prepare(b: Matrix) -> Call:
            right = torch.from_numpy(b).to(device, getattr(torch, dtype))
            return lambda: torch.matmul(left, right)

        return prepare

    return store
