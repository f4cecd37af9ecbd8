"""`python tests/benchmarks`: every table of README.md and docs/ with timings or comparisons, on an idle machine."""

import subprocess
import sys
from pathlib import Path

ORDER = ("speed", "scaling", "throughput", "capacity", "commands", "store", "connections", "samplers")

for name in ORDER:
    print(f"## {name}", flush=True)
    subprocess.run([sys.executable, Path(__file__).with_name(f"{name}.py")], check=True)
