"""Damaged networks: every format that `dse trace` and `dse io` read, and folders of workloads.

A case writes a small sound network, damages it, and runs one verb. It is either accepted, and then what was written can be
loaded, or refused with exit code 2, one line a problem, and nothing written.
"""

import contextlib
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random

import numpy as np

import dse
from dse.base.errors import InputError
from tests.fuzz import damage, sound_networks
from tests.fuzz.onnx_networks import onnx_files
from tests.fuzz.outcome import captured, check_refusal
from tests.fuzz.sound_networks import Files
from tests.fuzz.torch_networks import exported_archive, saved_by_torch

CASES = 40
for _module in ("dse.cli.trace", "dse.cli.io", "safetensors.numpy", "onnx.reference", "torch"):
    if find_spec(_module.partition(".")[0]):
        import_module(_module)  # here, since the time of a case is limited, and not that of the imports
OPTIONS: tuple[list[str], ...] = ([], [], [], [], ["--json"], ["--shape", "1x2x6x6"], ["--method", "magnitude"], ["--tolerance", "0.5"])


def case(random: Random, folder: Path) -> str:
    """One damaged network; "accepted" or "refused"."""
    kind = random.choice(list(kinds()))
    path = _written(random, kind, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        if kind in ("workload", "made"):
            return _loaded(path)
        return _traced(random, path, folder) if random.random() < 0.8 else _simulated(path, folder)


@cache
def kinds() -> Mapping[str, Callable[[Random], tuple[str, Files]]]:
    """What each makes: the path to read, and the files."""
    found: dict[str, Callable[[Random], tuple[str, Files]]] = {
        "table": lambda random: ("net.csv", {"net.csv": sound_networks.TABLE.encode()}), "yaml": lambda random: ("net.yaml", sound_networks.yaml_table()),
        "smtx": lambda random: ("net.smtx", {"net.smtx": sound_networks.smtx(sound_networks.WEIGHTS["fc1.weight"])}), "states": lambda random: ("net", sound_networks.pruned_states()),
        "npy": lambda random: ("net.npy", {"net.npy": sound_networks.npy(sound_networks.WEIGHTS["fc1.weight"], random)}),
        "npz": lambda random: ("net.npz", {"net.npz": sound_networks.npz(random)}), "scipy": lambda random: ("net.npz", {"net.npz": sound_networks.scipy_npz(random)}),
        "config": sound_networks.config, "workload": lambda random: ("net", dict(sound_networks.WORKLOAD)), "made": lambda random: ("net", dict(sound_networks.MADE)),
        "pt2": lambda random: ("net.pt2", {"net.pt2": exported_archive()}), "connections": lambda random: ("net.csv", {"net.csv": sound_networks.CONNECTIONS}),
    }  # fmt: skip
    if find_spec("safetensors"):
        found |= {
            "safetensors": lambda random: ("net.safetensors", {"net.safetensors": sound_networks.safetensors()}),
            "shards": sound_networks.shards,
            "model": sound_networks.config_and_weights,
        }
    if find_spec("onnx"):
        found |= {"onnx": lambda random: ("net.onnx", onnx_files(random)), "onnx2": lambda random: ("net.onnx", onnx_files(random))}
    if find_spec("torch"):
        found |= {"torch": lambda random: ("net" + random.choice((".pt", ".pth", ".bin")), {"net.pt": saved_by_torch(random.randrange(8))})}
    return found


def _written(random: Random, kind: str, folder: Path) -> Path:
    """The files of one network, one of them damaged; returns the path to read."""
    name, files = kinds()[kind](random)
    if kind == "torch":
        files = {name: files["net.pt"]}
    rate = random.random()
    if rate < 0.75 or kind in ("table", "yaml", "smtx", "workload", "made", "config", "pt2", "connections", "safetensors"):
        for _ in range(random.choice((1, 1, 1, 1, 2, 4))):
            victim = random.choice(sorted(files))
            with contextlib.suppress(
                ValueError, RecursionError, zipfile.BadZipFile, EOFError, struct.error, zlib.error
            ):  # damaged beyond this damage
                files[victim] = damage.damaged_file(random, victim, files[victim])
    if random.random() < 0.04 and Path(name).suffix:
        wrong = "net" + random.choice(
            (".npz", ".npy", ".safetensors", ".onnx", ".pt", ".pt2", ".json", ".csv", ".smtx", ".yaml", ".xyz", "")
        )
        files[wrong] = files.pop(name)
        name = wrong
    for file, content in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(content)
    if random.random() < 0.06:
        damage.replace_by_strange_file(random, folder / random.choice(sorted(files)))
    return folder / name


def _traced(random: Random, path: Path, folder: Path) -> str:
    made = folder / "made"
    made.mkdir()
    code, _, error = captured(["trace", str(path), "-o", str(made / "out"), *random.choice(OPTIONS)])
    left = sorted(file.name for file in made.iterdir())
    if code == 0:
        assert left == ["out"], left
        dse.load_workload(made / "out")
        return "accepted"
    assert code == 2, f"exit code {code}: {error}"
    check_refusal(error)
    assert not left, f"{left} is left behind"
    return "refused"


def _simulated(path: Path, folder: Path) -> str:
    code, _, error = captured(["io", str(path), "--memory", "64 values", "--moves", "10", "--json"])
    if code == 0:
        return "accepted"
    assert code == 2, f"exit code {code}: {error}"
    check_refusal(error)
    return "refused"


def _loaded(path: Path) -> str:
    try:
        loaded = dse.load_workload(path)
    except InputError as error:
        check_refusal(str(error))
        return "refused"
    assert np.isfinite(loaded.layers.macs)
    return "accepted"
