"""Several devices of a machine share the designs of a sweep, and change no bit of its results."""

import os
import subprocess
import sys

import pytest
import xarray as xr

import dse

AXES = """
axes:
  memory.dram.bandwidth: {from: 0.5 TB/s, to: 8 TB/s, steps: 70, scale: log}
  units.tensor.peak.fp16: {from: 50 TFLOP/s, to: 800 TFLOP/s, steps: 60, scale: log}
  units.vector.peak.fp16: {from: 5 TFLOP/s, to: 80 TFLOP/s, steps: 50, scale: log}
"""
ELSEWHERE = """
import sys
import dse, jax
from dse.model import grid, jax_devices
assert jax_devices.count() == 3
seen = []
def watch(function):
    def watched(network, rows, *arguments, **options):
        seen.append(len(rows.sharding.device_set))
        return function(network, rows, *arguments, **options)
    return watched
grid.latency_on_grid, grid.breakdown_on_grid = watch(grid.latency_on_grid), watch(grid.breakdown_on_grid)
dse.sweep(sys.argv[1], sys.argv[2])
assert set(seen) == {3}
"""


@pytest.mark.parametrize("variables", ["[latency]", "[latency, bound_share]"])
def test_three_devices_give_the_results_of_one(folder, variables):
    spec = folder / "small.yaml"
    spec.write_text(spec.read_text() + AXES + f"store: {{variables: {variables}}}\n")
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", ELSEWHERE, spec, folder / "three.nc"], env=os.environ | flags, check=True)
    with xr.open_dataset(folder / "three.nc") as found:
        assert found.drop_attrs().identical(dse.sweep(spec).drop_attrs())
