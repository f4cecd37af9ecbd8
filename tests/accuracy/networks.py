"""A small network with a measured curve of unstructured pruning, written to disk, and its weights."""

from pathlib import Path

import numpy as np

WORKLOAD = """name: small
task: a test
metric: {name: accuracy, unit: "%", direction: higher}
sources: [a test]
"""
LAYERS = """name,kind,m,k,n,count,input_elements,prunable
conv,conv,32,144,64,1,1024,true
fc,gemm,64,96,1,1,,true
head,gemm,10,64,1,1,,false
"""
ACCURACY = """method,pattern,sparsity,value,dense_value,source,kind,densities
magnitude,unstructured,0.5,90,91,a test,measured,uniform
magnitude,unstructured,0.8,85,91,a test,measured,uniform
magnitude,unstructured,0.95,60,91,a test,measured,uniform
"""
SHAPES = {"conv": (32, 16, 3, 3), "fc": (64, 96), "head": (10, 64)}


def write_network(folder: Path, accuracy: str = ACCURACY) -> Path:
    """Write the workload and return its folder."""
    path = folder / "small"
    path.mkdir()
    (path / "workload.yaml").write_text(WORKLOAD)
    (path / "layers.csv").write_text(LAYERS)
    (path / "accuracy.csv").write_text(accuracy)
    return path


def random_weights(seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {f"{name}.weight": generator.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}


def write_weights(folder: Path, **changes: np.ndarray | None) -> Path:
    """Write the weights as .npz and return its path; `changes` replace layers, or remove them."""
    arrays = random_weights() | {f"{name}.weight": array for name, array in changes.items() if array is not None}
    path = folder / "weights.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if changes.get(name.removesuffix(".weight"), array) is not None})  # type: ignore[arg-type]
    return path
