"""Descriptions: damaged accelerators, networks, sweeps and searches; checked, loaded, planned and some of them run."""

import shutil
from functools import cache
from pathlib import Path
from random import Random

import dse
from dse.base.catalog import data_root
from tests.conftest import described
from tests.fuzz import mutate
from tests.fuzz.outcome import call, run_command
from tests.searching import search_specs

CASES = 20
_SWEEP = """
name: small
accelerators: [./chip.yaml]
workloads:
  ./net: {methods: all, patterns: {list: ["1:8", "2:4"], densities: own}}
batch: [1, 16]
dtype: fp16
model: {fidelity: FIDELITY, dense_fallback: true}
axes:
  memory.dram.bandwidth: {from: 1 TB/s, to: 8 TB/s, steps: 3, scale: log}
  units.tensor.peak.fp16: [100 TFLOP/s, 200 TFLOP/s]
  memory.l2.capacity: [1 MB, 8 MB]
keep: KEEP
store: {variables: [latency, speedup]}
"""
_SEARCH = """
maximize: [performance, log(speedup) - 0.1 * power]
constraints: [area <= 420 mm^2, power <= 210 W, accuracy_drop <= 1.0]
sampler: SAMPLER
trials: 20
ask_batch: 10
"""


_SPACE = """
  units.tensor.peak.fp16: {from: 20 TFLOP/s, to: 400 TFLOP/s, steps: 3, scale: log}
  memory.dram.bandwidth: {from: 0.3 TB/s, to: 4 TB/s, steps: 3, scale: log}
  units.tensor.runs.sparse_24.enabled: [true, false]
  units.tensor.runs.sparse_24.gain: {from: 1, to: 2, steps: 2, when: {units.tensor.runs.sparse_24.enabled: true}}
"""


def case(random: Random, folder: Path) -> str:
    kind = random.choices((_accelerator, _network, _shipped_sweep, _small_sweep, _small_search), (300, 270, 340, 80, 10))[0]
    return f"{kind.__name__[1:]}: {kind(random, folder)}"


def _accelerator(random: Random, folder: Path) -> str:
    """A shipped accelerator, checked, loaded, or in a sweep."""
    source = random.choice(_shipped("accel_models/*.yaml"))
    target = folder / "chip.yaml"
    target.write_bytes(mutate.yaml_text(random, source.read_text()))
    verb = random.randrange(3)
    if verb == 0:
        return run_command("check", target, names=target.name, folder=folder)
    if verb == 1:
        return call(dse.load_accelerator, target, names=target.name)
    described(folder / "given")
    target.replace(folder / "given" / "chip.yaml")
    axes = random.choice(
        ["", "axes: {memory.dram.bandwidth: [1 TB/s, 2 TB/s]}", "axes: {memory.dram.capacity: {from: 1 GB, to: 2 GB, steps: 2}}"]
    )
    with (folder / "given" / "small.yaml").open("a") as file:
        file.write(f"{axes}\nmodel: {{fidelity: {random.choice(['sol', 'r3', 'capacity'])}, dense_fallback: true}}\n")
    return run_command("sweep", folder / "given" / "small.yaml", "--dry-run", names="given", folder=folder)


def _network(random: Random, folder: Path) -> str:
    """A shipped network or the small one, with one of its files damaged; checked, or loaded."""
    net = folder / "net"
    _copy_network(random, net)
    files = sorted(path for path in net.rglob("*") if path.suffix in (".yaml", ".csv"))
    target = random.choice([net / "workload.yaml", *files])
    change = mutate.yaml_text if target.suffix == ".yaml" else mutate.csv_text
    target.write_bytes(change(random, target.read_text()))
    if random.random() < 0.5:
        return run_command("check", net, names="net", folder=folder)
    return call(dse.load_workload, net, names="net")


def _copy_network(random: Random, net: Path) -> None:
    """At most three variants, so that a case is short."""
    source = random.choice(_shipped("workloads/*/workload.yaml")).parent
    if random.random() < 0.3:
        source = described(net.parent / "given") / "net"
    for path in sorted(source.rglob("*")):
        if path.is_file() and (path.parent == source or random.random() < 3 / len(list(path.parent.iterdir()))):
            (net / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, net / path.relative_to(source))


def _shipped_sweep(random: Random, folder: Path) -> str:
    """A shipped sweep or search, checked, or planned."""
    source = random.choice(_shipped("sweeps/**/*.yaml"))
    target = folder / "spec.yaml"
    target.write_bytes(mutate.yaml_text(random, source.read_text()))
    command = ("check", target) if random.random() < 0.6 else ("sweep", target, "--dry-run")
    return run_command(*command, names=target.name, folder=folder)


def _small_sweep(random: Random, folder: Path) -> str:
    """A small sweep, run."""
    target = described(folder) / "spec.yaml"
    keep = random.choice(["all", "all", "summary", "{front: {minimize: [latency]}}", "{top: {by: latency, count: 5}}"])
    fidelity = random.choice(["sol", "r3", "capacity"])
    target.write_bytes(mutate.yaml_text(random, _SWEEP.replace("FIDELITY", fidelity).replace("KEEP", keep)))
    return run_command("sweep", target, "-o", folder / "out", names=target.name, folder=folder)


def _small_search(random: Random, folder: Path) -> str:
    """A small search, run."""
    written = _SEARCH.replace("SAMPLER", random.choice(["exhaustive", "nsga2", "random"]))
    target = search_specs.write(described(folder), written, _SPACE, "spec.yaml")
    target.write_bytes(mutate.yaml_text(random, target.read_text()))
    return run_command("search", target, "-o", folder / "out", names=target.name, folder=folder, codes=(0, 2, 3))


@cache
def _shipped(pattern: str) -> list[Path]:
    return sorted(data_root().glob(pattern))
