"""The batch size and the dtype in the brackets of a result: `latency[llama-3.1-8b/decode, batch=8, dtype=fp8]`.

Each follows a comma, or is alone in the brackets (`throughput[batch=8]`). A result that names neither is that of the design, which has one
batch size and one dtype.
"""

import re
from dataclasses import dataclass, replace

from dse.base.dtype import OperandDtypes
from dse.base.errors import InputError, did_you_mean
from dse.base.expression import split_brackets
from dse.base.strict_model import validate_mapping

SETTINGS = ("batch", "dtype")
MAX_BATCH_SIZE = 10**9
_LAST_SETTING = re.compile(rf"(?:^|,)\s*({'|'.join(SETTINGS)})\s*=\s*([^,()]*)$")
_LAST_OTHER = re.compile(r"(?:^|,)\s*(\w+)\s*=\s*[^,()/]*$")


@dataclass(frozen=True)
class RunSettings:
    """How a network is run: at `batch` and in `dtype`; None where the design says it."""

    batch: int | None = None
    dtype: OperandDtypes | None = None

    def __str__(self) -> str:
        """As results name them: 'batch=8, dtype=fp8'."""
        named = {"batch": self.batch, "dtype": self.dtype and self.dtype.text}
        return ", ".join(f"{name}={value}" for name, value in named.items() if value is not None)


def run_settings(name: str) -> RunSettings:
    """The settings in the brackets of a result, if it has any; raises InputError."""
    return split_run_settings(split_brackets(name)[1] or "")[1]


def split_run_settings(selector: str) -> tuple[str, RunSettings]:
    """Split what is in brackets into the part that selects networks (empty: all) and the settings; raises InputError."""
    network, settings = selector.strip(), RunSettings()
    while match := _LAST_SETTING.search(network):
        name, text = match[1], match[2].strip()
        if getattr(settings, name) is not None:
            raise InputError(f"'{name}' is given twice in '[{selector}]'", "keep one of each")
        settings = replace(settings, **{name: _parse_batch(text) if name == "batch" else validate_mapping(OperandDtypes, text)})
        network = network[: match.start()].strip()
    if match := _LAST_OTHER.search(network):
        fix = did_you_mean(match[1], SETTINGS) + "; an input of a network follows '/', as in 'net/phase=decode'"
        raise InputError(f"'{match[1]}' in '[{selector}]' is neither a batch size nor a dtype", fix)
    if match := re.search(rf"/\s*((?:{'|'.join(SETTINGS)})\s*=[^/]*)", network):
        raise InputError(f"'{match[1].strip()}' in '[{selector}]' follows '/'", "write a comma before it, as in 'net, batch=8'")
    return network, settings


def _parse_batch(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_BATCH_SIZE:
        raise InputError(f"'{text}' is not a valid batch size", f"write a whole number from 1 to {MAX_BATCH_SIZE}, as in 'batch=8'")
    return int(text)
