"""Kernels that can be timed here: how each makes its operands, and how long one call takes."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np

Call = Callable[[], object]
Prepare = Callable[[np.ndarray, np.ndarray], Call]  # A [m, k] with its zeros, B [k, n]; both float32


@dataclass(frozen=True)
class Timed:
    """One kernel of one library: what it takes, and the dense one that it is held against."""

    name: str
    release: str
    pattern: str
    dtype: str
    prepare: Prepare
    unit: str | None = None


def median(call: Call, repeats: int, warm_up: int = 3) -> float:
    """Median time of a call [s], after some that don't count."""
    for _ in range(warm_up):
        call()
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return float(np.median(found))


def kernels(cuda: bool) -> list[Timed]:
    """What is installed: on the GPU, or on the CPU."""
    return list(_on_gpu() if cuda else _on_cpu())


def has_cuda() -> bool:
    if find_spec("torch") is None:
        return False
    import torch  # pyright: ignore[reportMissingImports]

    return bool(torch.cuda.is_available())


def _on_cpu() -> Iterator[Timed]:
    import scipy.sparse as sp

    yield Timed("numpy", f"numpy {np.__version__}", "dense", "fp32", lambda a, b: lambda: a @ b)
    yield Timed("jax", f"jax {version('jax')}", "dense", "fp32", _jax)
    scipy = f"scipy {version('scipy')}"
    yield Timed("scipy csr", scipy, "unstructured", "fp32", lambda a, b: _product(sp.csr_array(a), b))
    yield Timed("scipy bsr", scipy, "block:16x16", "fp32", lambda a, b: _product(sp.bsr_array(a, blocksize=(16, 16)), b))
    if find_spec("torch"):
        yield from _torch("cpu", "fp32", ("dense", "unstructured"))


def _product(a: Any, b: Any) -> Call:
    return lambda: a @ b


def _jax(a: np.ndarray, b: np.ndarray) -> Call:
    import jax
    import jax.numpy as jnp

    left, right, multiply = jnp.asarray(a), jnp.asarray(b), jax.jit(jnp.matmul)
    return lambda: multiply(left, right).block_until_ready()


def _on_gpu() -> Iterator[Timed]:
    yield from _torch("cuda", "fp16", ("dense", "2:4", "block:64x64", "unstructured"))
    yield from _torch("cuda", "fp32", ("dense", "unstructured"))


TORCH_NAMES = {"dense": "torch dense", "2:4": "torch 2:4", "block:64x64": "torch bsr", "unstructured": "torch csr"}


def _torch(where: str, dtype: str, patterns: tuple[str, ...]) -> Iterator[Timed]:
    release = f"torch {version('torch')}"
    for pattern in patterns:
        unit = "cuda_core" if where == "cuda" and pattern == "unstructured" else None
        yield Timed(TORCH_NAMES[pattern], release, pattern, dtype, _in_torch(where, dtype, pattern), unit)


def _in_torch(where: str, dtype: str, pattern: str) -> Prepare:
    import torch  # pyright: ignore[reportMissingImports]

    def stored(a: Any) -> Any:
        if pattern == "2:4":
            return torch.sparse.to_sparse_semi_structured(a)
        if pattern == "unstructured":
            return a.to_sparse_csr()
        return a.to_sparse_bsr((64, 64)) if pattern.startswith("block") else a

    def prepare(a: np.ndarray, b: np.ndarray) -> Call:
        kind = {"fp16": torch.float16, "fp32": torch.float32}[dtype]
        left = stored(torch.from_numpy(a).to(where, kind))
        right = torch.from_numpy(b).to(where, kind)

        def call() -> None:
            torch.matmul(left, right)
            if where == "cuda":
                torch.cuda.synchronize()

        return call

    return prepare
