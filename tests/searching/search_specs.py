"""A small search: one network in three variants, a chip whose cost is known."""

import textwrap
from pathlib import Path

from dse.searching import run
from dse.searching.evaluator import Evaluator

CHIP = """
name: chip
source: a test
units:
  tensor:
    peak: {fp16: 100 TFLOP/s}
    runs:
      sparse_24: {pattern: 2:4, gain: 2}
  vector:
    peak: {fp16: 10 TFLOP/s}
    runs:
      csr: {pattern: unstructured, efficiency: 0.5}
memory:
  dram: {capacity: 1 GB, bandwidth: 1 TB/s}
cost: {area: 400 mm^2, power: 200 W, process: 7 nm}
"""

AXES = """
  units.tensor.peak.fp16: {from: 20 TFLOP/s, to: 400 TFLOP/s, steps: 12, scale: log}
  units.vector.peak.fp16: {from: 5 TFLOP/s, to: 80 TFLOP/s, steps: 8, scale: log}
  memory.dram.bandwidth: {from: 0.3 TB/s, to: 4 TB/s, steps: 12, scale: log}
  units.tensor.runs.sparse_24.enabled: [true, false]
  units.tensor.runs.sparse_24.gain: {from: 1, to: 2, steps: 3, when: {units.tensor.runs.sparse_24.enabled: true}}
"""
CONTINUOUS = "\n".join(line for line in AXES.replace(", steps: 12", "").replace(", steps: 8", "").splitlines())


def write(folder: Path, search: str, axes: str = AXES, name: str = "search.yaml") -> Path:
    """A specification beside the network `net` of the shared fixtures."""
    (folder / "chip.yaml").write_text(CHIP)
    text = f"""
name: small_search
accelerators: [./chip.yaml]
workloads:
  ./net: {{methods: all}}
batch: [4]
dtype: fp16
model: {{fidelity: r3, dense_fallback: true}}
axes:{axes.rstrip()}
search:
{textwrap.indent(textwrap.dedent(search).strip(), "  ")}
"""
    path = folder / name
    path.write_text(text)
    return path


LIMITED = """
maximize: [performance]
constraints: [area <= 420 mm^2, power <= 210 W, accuracy_drop <= 1.0]
trials: 120
ask_batch: 20
"""


def make_evaluator(folder: Path, search: str = LIMITED, axes: str = AXES) -> Evaluator:
    return run.load_evaluator(write(folder, search, axes))
