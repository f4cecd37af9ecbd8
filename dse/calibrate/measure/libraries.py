"""The kernels of the libraries that are installed here: how each stores A, and how it multiplies."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np

from dse.calibrate.measure.timing import Call

Multiply = Callable[[np.ndarray], Call]  # B [k, n] in float32 -> what computes A B
Store = Callable[[np.ndarray], Multiply]  # A [m, k] in float32, with its zeros


@dataclass(frozen=True)
class Timed:
    """One kernel of one library. A has to have whole blocks of `grain` rows and columns."""

    name: str
    release: str
    pattern: str
    dtype: str
    store: Store
    unit: str | None = None
    grain: tuple[int, int] = (1, 1)


def has_cuda() -> bool:
    if find_spec("torch") is None:
        return False
    import torch  # pyright: ignore[reportMissingImports]

    return bool(torch.cuda.is_available())


def kernels(cuda: bool) -> list[Timed]:
    """What is installed: for the GPU, or for the CPU."""
    return list(_on_gpu() if cuda else _on_cpu())


def _on_cpu() -> Iterator[Timed]:
    import scipy.sparse as sp

    scipy = f"scipy {version('scipy')}"
    yield Timed("numpy", f"numpy {np.__version__}", "dense", "fp32", lambda a: lambda b: lambda: a @ b)
    yield Timed("jax", f"jax {version('jax')}", "dense", "fp32", _jax)
    yield Timed("scipy csr", scipy, "unstructured", "fp32", lambda a: _product(sp.csr_array(a)))
    yield Timed("scipy bsr", scipy, "block:16x16", "fp32", lambda a: _product(sp.bsr_array(a, blocksize=(16, 16))), grain=(16, 16))
    if find_spec("torch"):
        release = f"torch {version('torch')}"
        yield Timed("torch", release, "dense", "fp32", _torch("cpu", "float32", lambda a: a))
        yield Timed("torch csr", release, "unstructured", "fp32", _torch("cpu", "float32", lambda a: a.to_sparse_csr()))


def _product(a: Any) -> Multiply:
    return lambda b: lambda: a @ b


def _jax(a: np.ndarray) -> Multiply:
    import jax
    import jax.numpy as jnp

    left, multiply = jnp.asarray(a), jax.jit(jnp.matmul)

    def with_b(b: np.ndarray) -> Call:
        right = jnp.asarray(b)
        return lambda: multiply(left, right).block_until_ready()

    return with_b


def _on_gpu() -> Iterator[Timed]:
    """Through PyTorch: 2:4 matrices have whole blocks of 32 x 64 there, and CUTLASS's kernels run on Ampere and Ada alone."""
    import torch  # pyright: ignore[reportMissingImports]
    from torch.sparse import semi_structured  # pyright: ignore[reportMissingImports]

    release = f"torch {version('torch')}, CUDA {torch.version.cuda}"
    two_four: dict[str, Any] = {"cuSPARSELt": semi_structured.SparseSemiStructuredTensorCUSPARSELT}
    if torch.cuda.get_device_capability()[0] == 8:
        two_four["CUTLASS"] = semi_structured.SparseSemiStructuredTensorCUTLASS
    for dtype, kind in (("fp16", "float16"), ("fp32", "float32")):
        yield Timed("cuBLAS", release, "dense", dtype, _torch("cuda", kind, lambda a: a))
        yield Timed("cuSPARSE csr", release, "unstructured", dtype, _torch("cuda", kind, lambda a: a.to_sparse_csr()), "cuda_core")
    for name, made in two_four.items():
        yield Timed(name, release, "2:4", "fp16", _torch("cuda", "float16", made.from_dense), grain=(32, 64))
    blocks = _torch("cuda", "float16", lambda a: a.to_sparse_bsr((64, 64)))
    yield Timed("Triton bsr", release, "block:64x64", "fp16", blocks, grain=(64, 64))


def _torch(where: str, kind: str, stored: Callable[[Any], Any]) -> Store:
    import torch  # pyright: ignore[reportMissingImports]

    def store(a: np.ndarray) -> Multiply:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # that its sparse matrices are in beta
            left = stored(torch.from_numpy(a).to(where, getattr(torch, kind)))

        def with_b(b: np.ndarray) -> Call:
            right = torch.from_numpy(b).to(where, getattr(torch, kind))
            return lambda: torch.matmul(left, right)

        return with_b

    return store
