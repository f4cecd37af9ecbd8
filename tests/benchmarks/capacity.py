"""What on-chip capacity costs: a sweep of a million designs with the fidelity `capacity` against the same one with `sol`.

    python tests/benchmarks/capacity.py

The designs of `throughput.py`, and the same number of them with an axis of ten capacities. `capacity` evaluates every latency twice,
what is attainable and what no schedule can beat. Everything between specification and dataset is timed; ratios carry over.
"""

import tempfile
from functools import partial
from pathlib import Path

from throughput import SPEC, timed

from dse.explore import plan as plans
from dse.explore import sweep

CAPACITIES = "\n  memory.l2.capacity: {from: 1 MB, to: 40 MB, steps: 10, scale: log}\nmodel: {fidelity: capacity}"
VARIABLES = {
    "latency": "latency, dense_latency",
    "latency and shares": "latency, dense_latency, bound_share, execution_share",
}


def main() -> None:
    print(f"{'':60}{'seconds':>9}{'ratio':>8}")
    for what, variables in VARIABLES.items():
        store = f"store: {{variables: [{variables}]}}"
        _, base = timed(partial(sweep.run, _plan(SPEC + store)))
        print(f"{f'sol, {what}':60}{base:9.3f}{1:8.2f}")
        fewer = SPEC.replace("steps: 100, scale: log}\n  units.tensor", "steps: 10, scale: log}\n  units.tensor")
        for name, text in (
            ("capacity of the device", SPEC + "model: {fidelity: capacity}\n" + store),
            ("ten capacities", fewer.rstrip() + CAPACITIES + "\n" + store),
        ):
            _, seconds = timed(partial(sweep.run, _plan(text)))
            print(f"{f'{name}, {what}, with its bound':60}{seconds:9.3f}{seconds / base:8.2f}")


def _plan(text: str) -> plans.Plan:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million.yaml"
        path.write_text(text)
        return plans.load(path)


if __name__ == "__main__":
    main()
