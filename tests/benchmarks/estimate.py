"""Time of `dse accuracy estimate`: 12 patterns, those without a sparsity of their own at 8 sparsities, of 1e8 normal weights.

python tests/benchmarks/estimate.py [--weights 1e8]
"""

import argparse
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from dse.cli.entry import main

FREE = ("unstructured", "block:1x4", "block:4x4", "block:16x16", "block:32x32", "row", "column", "block:32x32/2:4")
FIXED = ("2:4", "4:8", "1:4", "64:2:8")
SPARSITIES = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
SIDE = 4096  # rows and columns of each layer


def write_network(folder: Path, layers: int) -> tuple[Path, Path]:
    """A workload of square layers with a curve, and its weights in fp16."""
    from safetensors.numpy import save_file

    network, weights = folder / "net", folder / "weights.safetensors"
    network.mkdir()
    (network / "workload.yaml").write_text("name: big\ntask: none\nmetric: {name: accuracy, direction: higher}\nsources: [none]\n")
    rows = "".join(f"l{number},gemm,{SIDE},{SIDE},1,1\n" for number in range(layers))
    (network / "layers.csv").write_text(f"name,kind,m,k,n,count\n{rows}")
    points = "".join(f"m,unstructured,{s},{90 * (1 - s**8)},90,none,measured,uniform\n" for s in (0.5, 0.8, 0.9, 0.99))
    (network / "accuracy.csv").write_text(f"method,pattern,sparsity,value,dense_value,source,kind,densities\n{points}")
    generator = np.random.default_rng(0)
    save_file(
        {f"l{number}.weight": generator.standard_normal((SIDE, SIDE), np.float32).astype(np.float16) for number in range(layers)}, weights
    )
    return network, weights


def run(weights: float) -> None:
    layers = round(weights / SIDE**2)
    with tempfile.TemporaryDirectory() as folder:
        network, file = write_network(Path(folder), layers)
        patterns = [*FIXED, *(f"{pattern}@{sparsity}" for pattern in FREE for sparsity in SPARSITIES)]
        start = perf_counter()
        code = main(["-q", "accuracy", "estimate", str(network), "--weights", str(file), "--patterns", *patterns])
        seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(f"{layers * SIDE**2 / 1e6:.0f} M weights: {seconds:.1f} s, at most {peak:.2f} GB", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", type=float, default=1e8)
    run(parser.parse_args().weights)
