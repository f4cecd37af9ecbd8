"""Simulation, annealing and inference of sparse networks, in one run on one core.

    python tests/benchmarks/connections.py

Inference is compared with scipy's CSR product and the BLAS's dense one, layer by layer, over density, width and batch: four equal
layers, ReLU between, float32. A ratio above 1 is how much faster the connections were run in their order, below 1 how much slower.
Ratios hold on a noisy machine, absolute times do not.
"""

import os

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")  # before NumPy is imported

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dse.io_theory.bounds import lower_bound
from dse.io_theory.generated_network import compact_growth, random_layers
from dse.io_theory.inference import compile_program, run_program
from dse.io_theory.layered_network import network_from_matrices
from dse.io_theory.orders import tile_order, two_optimal_order
from dse.io_theory.reorder import reorder
from dse.io_theory.simulate import POLICIES, simulate

RUNS = 7
LAYERS = 4
BAR = 5e6  # connections per second that a simulation must reach under LRU and MIN


def main() -> None:
    _simulations()
    _annealing()
    _inference()


def _simulations() -> None:
    nets = {"grown": compact_growth(300, 10_000, 100), "random": random_layers((2000,) * 6, 0.05)}
    print(f"{'simulated connections / s':34}" + "".join(f"{policy:>12}" for policy in POLICIES))
    for name, net in nets.items():
        for capacity in (32, 1024):
            rates = []
            for policy in POLICIES:
                _, seconds = time_call(partial(simulate, net, two_optimal_order(net), capacity, policy))
                rates.append(net.num_connections / seconds)
                assert policy == "fifo" or rates[-1] > BAR, rates
            print(f"{f'{name}, W={net.num_connections}, M={capacity}':34}" + "".join(f"{rate:12.2e}" for rate in rates))


def _annealing() -> None:
    print(f"\n{'annealing':34}{'moves / s':>12}{'gap closed':>12}")
    for sizes, capacity, moves in (((40,) * 5, 40, 200_000), ((300,) * 5, 100, 20_000)):
        net = random_layers(sizes, 0.1)
        reorder(net, capacity, moves=10)
        start = time.perf_counter()
        result = reorder(net, capacity, moves=moves)
        seconds = time.perf_counter() - start
        lower, before = lower_bound(net).total, simulate(net, two_optimal_order(net), capacity).total
        closed = (before - result.traffic) / (before - lower)
        print(f"{f'W={net.num_connections}, M={capacity}, {moves} moves':34}{moves / seconds:12.0f}{closed:12.1%}")


def _inference() -> None:
    print(f"\n{'inference':34}{'against CSR':>24}{'against dense':>24}")
    print(f"{'':34}" + f"{'two-optimal':>12}{'tiled':>12}" * 2 + "   ns per connection and sample")
    slower = []
    for width in (256, 1024, 4096):
        for density in (0.01, 0.05, 0.2):
            for batch in (1, 8, 64, 512):
                ratios, own_ns = _compare(width, density, batch)
                label = f"width {width}, density {density:g}, batch {batch}"
                print(f"{label:34}" + "".join(f"{ratio:12.2f}" for ratio in ratios) + f"{own_ns:12.2f}")
                slower += [label] if max(ratios[0], ratios[1]) < 1 else []
    print(f"\nIn either order slower than CSR in {len(slower)} of 36 cases: {'; '.join(slower)}")


def _compare(width: int, density: float, batch: int) -> tuple[list[float], float]:
    """Speedups over CSR and over the dense product, in both orders; time per connection and sample in the first [ns]."""
    rng = np.random.default_rng(0)
    masks = [rng.random((width, width)) < density for _ in range(LAYERS)]
    for mask in masks:  # every neuron has a source and a use, so that nothing is dead
        mask[np.arange(width), rng.permutation(width)] = True
    dense = [np.where(mask, rng.standard_normal(mask.shape) / np.sqrt(density * width), 0).astype(np.float32) for mask in masks]
    sparse, net = [csr_array(matrix) for matrix in dense], network_from_matrices(dense)
    x = rng.standard_normal((width, batch)).astype(np.float32)
    programs = [compile_program(net, order) for order in (two_optimal_order(net), tile_order(net, 258))]
    expected, csr = time_call(partial(_by_layer, sparse, x))
    other, blas = time_call(partial(_by_layer, dense, x))
    own = [time_call(partial(run_program, program, x)) for program in programs]
    for result in (other, *(result for result, _ in own)):
        assert np.abs(result - expected).max() < 1e-5 * max(np.abs(expected).max(), 1)
    return [csr / seconds for _, seconds in own] + [blas / seconds for _, seconds in own], own[0][1] / net.num_connections / batch * 1e9


def _by_layer(matrices: list[Any], x: np.ndarray) -> np.ndarray:
    for matrix in matrices[:-1]:
        x = np.maximum(matrix @ x, 0)
    return matrices[-1] @ x


def time_call(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result, and the median time of the runs after the first, which compiles."""
    result, times = work(), []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return result, statistics.median(times)


if __name__ == "__main__":
    main()
