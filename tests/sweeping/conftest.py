"""A sweep over three axes, one of them an outer loop."""

import pytest

AXES = """
axes:
  memory.dram.bandwidth: {from: 1 TB/s, to: 8 TB/s, steps: 4, scale: log}
  units.tensor.runs.sparse_24.pattern: ["2:4", "1:2"]
  units.tensor.peak.fp16: [100 TFLOP/s, 200 TFLOP/s, 400 TFLOP/s]
"""


@pytest.fixture
def spec_file(folder):
    path = folder / "small.yaml"
    path.write_text(path.read_text() + AXES)
    return path
