"""What on-chip capacity costs: a sweep of a million designs with the fidelity `capacity` against the same one with `sol`.

    python tests/benchmarks/capacity.py

The designs of `throughput.py`, and as many with an axis of ten capacities. `capacity` evaluates every latency twice, what is attainable
and what no schedule can beat. The time is that from specification to dataset. The three take turns, so that a busy machine slows
all of them: the ratio is the median over the turns.
"""

import statistics
import tempfile
import time
from pathlib import Path

from throughput import SPEC

from dse.sweeping import run
from dse.sweeping.plan import Plan
from dse.sweeping.plan_builder import load_plan

TURNS = 12
TEN = (
    SPEC.replace("to: 8 TB/s, steps: 100", "to: 8 TB/s, steps: 10")
    + "  memory.l2.capacity: {from: 1 MB, to: 40 MB, steps: 10, scale: log}\n"
)
CAPACITY = "model: {fidelity: capacity}\n"
SWEEPS = {"sol": SPEC, "capacity of the device": SPEC + CAPACITY, "ten capacities": TEN + CAPACITY}
VARIABLES = {"latency": "latency, dense_latency", "latency and shares": "latency, dense_latency, bound_share, execution_share"}


def main() -> None:
    print(f"{'':50}{'seconds':>9}{'ratio':>8}")
    for what, variables in VARIABLES.items():
        plans = [_plan(f"{text}store: {{variables: [{variables}]}}\n") for text in SWEEPS.values()]
        turns = [[_seconds(plan) for plan in plans] for _ in range(1 + TURNS)][1:]  # the first compiles
        for name, times in zip(SWEEPS, zip(*turns, strict=True), strict=True):
            ratio = statistics.median(time / turn[0] for time, turn in zip(times, turns, strict=True))
            print(f"{f'{name}, {what}':50}{statistics.median(times):9.3f}{ratio:8.2f}")


def _plan(text: str) -> Plan:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million.yaml"
        path.write_text(text)
        return load_plan(path)


def _seconds(plan: Plan) -> float:
    start = time.perf_counter()
    run.run_in_memory(plan)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
