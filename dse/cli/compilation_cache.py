"""The folder in which JAX keeps the functions that a command compiles, so that the next command does not compile them again.

Compiling takes up to half of a short sweep. JAX identifies a function by what it computes, its shapes, the version of the compiler and the
device; the folder is that of one kind of processor, because a home may be shared by machines that have different ones.
"""

import hashlib
import os
import platform
from pathlib import Path

MAX_BYTES = 2**28  # of the folder: about 2,000 sweeps of different shapes

# JAX reads these when it is first imported, and processes that the command starts inherit them.
FOLDER, SWITCH = "JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"
SETTINGS = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.05"}


def keep_compiled_functions() -> None:
    """Let JAX store compiled functions in the folder of the user.

    Variables of the environment take precedence. Nothing is stored if the folder cannot be written.
    """
    if FOLDER in os.environ or SWITCH in os.environ:
        return
    try:
        folder = _user_folder() / "sparse-dse" / f"jax-{_processor()}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # JAX runs what it finds there
        _remove_oldest(folder)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return
    if os.access(folder, os.W_OK):
        os.environ.update({FOLDER: str(folder), **SETTINGS})


def _user_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _processor() -> str:
    """Identifies the instructions that the processor has, as far as the operating system lists them."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else [platform.processor()]
    features = sorted({line for line in lines if line.lower().startswith(("model name", "flags", "features"))} or {*lines[:1]})
    return hashlib.sha256("\n".join([platform.machine(), *features]).encode()).hexdigest()[:12]


def _remove_oldest(folder: Path) -> None:
    """Remove what was compiled first, where the folder is larger than `MAX_BYTES`."""
    files = sorted(((file.stat(), file) for file in folder.iterdir()), key=lambda pair: pair[0].st_mtime, reverse=True)
    size = 0
    for status, file in files:
        size += status.st_size
        if size > MAX_BYTES:
            file.unlink(missing_ok=True)
