"""The long run of a fuzzer: `python -m tests.fuzz NAME --cases 10000 --seed 7`."""

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz import harness


def main() -> int:
    """Run the cases that the command line asks for, print labels and failures; 1 if there were failures."""
    options = _parser().parse_args()
    numbers = [options.only] if options.only is not None else range(options.first, options.first + options.cases)
    began = time.monotonic()
    report = harness.run(
        options.name,
        options.seed,
        numbers,
        options.workers,
        options.save,
        options.seconds,
        notify=lambda failure: print(failure, end="\n\n", flush=True),
    )
    print(f"{options.name}: {len(numbers)} cases in {time.monotonic() - began:.0f} s, seed {options.seed}")
    for label, count in [*report.labels.most_common(), ("failed", len(report.failures))]:
        print(f"  {count:7d} {label}")
    return 1 if report.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Run many cases of a fuzzer.")
    parser.add_argument("name", choices=harness.names())
    parser.add_argument("--cases", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default: 0)")
    parser.add_argument("--only", type=int, metavar="N", help="this case alone")
    parser.add_argument("--seed", type=int, default=0, help="the test suite's is 0 (default: 0)")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--seconds", type=float, default=harness.SECONDS, help="of processor time for a case (default: %(default)g)")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="copy the inputs of failed cases there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
