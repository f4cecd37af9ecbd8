"""The settings of a side of an explanation, as a user states them.

A side is given as text, `h100-sxm5-80gb, 2:4, batch=32`, or as a mapping with the same keys. Words without a key may be names of
accelerators and workloads, patterns, dtypes, fidelities, shapes `MxKxN` of one product, pruning methods, and rows of measured kernels
(`FILE.csv:LINE`).
"""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

from dse.base import catalog
from dse.base.dtype import check_dtype_name
from dse.base.errors import InputError, ProblemCollector, did_you_mean
from dse.explaining.measured_row import read_measured_row
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import Fidelity, ModelOptions
from dse.schema.references import load_accelerator
from dse.sparsity.grammar import parse
from dse.workload import Variant, Workload

SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)")
DOTTED_PATH = re.compile(r"(units|memory|overhead|cost)(\.\w+)+")
OWN_KEYS = ("accelerator", "workload", "variant", "pattern", "sparsity", "density", "shape", "batch", "dtype", "measured")
MISSPELT = 0.75  # similarity (difflib) from which a word is a misspelt name of the catalogue: 'resnet_50' has 0.94 to 'resnet50'
COMMON_DTYPES = ("fp16", "bf16", "fp8", "int8", "fp32")  # the first in which all devices compute is taken where none is stated

Settings = dict[str, Any]  # by key: one of OWN_KEYS, an option of the model, an input of the network, or a path of the accelerator


def read_settings(given: object) -> Settings:
    """The settings that a side states: text, a mapping, or an object that is one of them; raises InputError with every problem."""
    match given:
        case None:
            return {}
        case Accelerator():
            return {"accelerator": given}
        case Variant():
            return {"variant": given}
        case Workload():
            return {"workload": given}
        case Mapping():
            return dict(given)
        case str() | Path():
            return _parse_text(str(given))
    what = f"'{type(given).__name__}' is not the type of a side"
    raise InputError(what, "give text, as in 'a100-sxm4-80gb, 2:4, batch=32', a mapping, an accelerator or a variant")


def _parse_text(text: str) -> Settings:
    settings, problems = Settings(), ProblemCollector()
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, value = map(str.strip, part.partition("="))
        equals = equals if " " not in name else ""  # as in 'int8 outputs=int32'
        with problems.collect():
            stated = None if equals else read_measured_row(part)
            if stated is None:
                stated = {name: value} if equals else {_key_of(part): part}
            if twice := sorted(stated.keys() & settings.keys()):
                raise InputError(f"'{text}' gives the {twice[0]} twice", "keep one")
            settings |= stated
    problems.raise_if_any()
    return settings


def _key_of(word: str) -> str:
    """The key of a word that is given without one; raises InputError for a word that nothing is called."""
    accelerators, workloads = catalog.list_names("accel_models"), catalog.list_names("workloads")
    if word in accelerators or (catalog.is_path(word) and word.endswith((".yaml", ".yml")) and not Path(word).is_dir()):
        return "accelerator"
    if word in workloads or catalog.is_path(word):
        return "workload"
    if SHAPE.fullmatch(word):
        return "shape"
    if word in get_args(Fidelity):
        return "fidelity"
    if _is_valid(partial(check_dtype_name, word.split()[0])):
        return "dtype"
    if _is_valid(partial(parse, word)):
        return "pattern"
    if re.fullmatch(r"[A-Za-z]\w*", word) and not _resembles(word, [*accelerators, *workloads]):
        return "variant"  # the name of a pruning method, which is checked with the workload
    fix = f"{did_you_mean(word, [*accelerators, *workloads])} (or a pattern, 'KEY=VALUE', or the path of a file)"
    raise InputError(f"'{word}' is not an accelerator, a workload or a pattern", fix)


def _resembles(word: str, names: Sequence[str]) -> bool:
    """Whether a word may be a misspelt or shortened name."""
    return any(name.startswith(word) for name in names) or bool(difflib.get_close_matches(word, names, n=1, cutoff=MISSPELT))


def _is_valid(check: Callable[[], object]) -> bool:
    try:
        check()
    except ValueError:  # InputError and pydantic's errors are both one
        return False
    return True


def with_common_dtype(sides: Sequence[Settings]) -> list[Settings]:
    """The settings, where those without a dtype have the first of `COMMON_DTYPES` in which all their accelerators compute."""
    without_dtype = [settings for settings in sides if settings.get("dtype") is None]
    try:
        devices = [load_accelerator(settings["accelerator"]) for settings in without_dtype if settings.get("accelerator") is not None]
    except InputError:  # `make_side` reports it
        return list(sides)
    computed = [{dtype for unit in device.units.values() for dtype in unit.peak} for device in devices]
    dtype = next((dtype for dtype in COMMON_DTYPES if all(dtype in peaks for peaks in computed)), None)
    return [{**settings, "dtype": dtype} if settings.get("dtype") is None else settings for settings in sides]


def is_input(key: str) -> bool:
    """Whether a setting is an input of the network."""
    return key not in (*OWN_KEYS, *ModelOptions.model_fields) and not DOTTED_PATH.fullmatch(key)
