"""Devices of the catalogue by the names that drivers and published tables give to them.

Case, separators, vendors and series do not count: 'NVIDIA H100 PCIe', 'h100_pcie' and 'H100-PCIe-80GB' are 'h100-pcie-80gb'. A form factor
(SXM, PCIe, NVL) or a memory size that a name does not state may be any.
"""

import difflib
import re
from functools import cache
from typing import NamedTuple

from dse.base import catalog
from dse.schema.references import load_accelerator

# Of several devices that a name may mean, the one that is assumed: sources that write 'A100' or 'A100 SXM' measured the SXM4 with 80 GB.
ASSUMED_DEVICES = ("a100-sxm4-80gb",)
_DRIVER_NAME, _DRIVER_MEANING = "h100 80gb hbm3", "h100 sxm 80gb"  # the driver names no form factor; the PCIe card has HBM2e
MEMORY_TOLERANCE = 0.1  # relative: names state more than a description where part of the memory is reserved (B300: 288 and 270 GB)
_IGNORED_WORDS = "nvidia|geforce|tesla|amd|instinct|intel|google|aws|qualcomm|gpu|generation|blackwell|workstation|edition|hbm[0-9]?e?"


class DeviceName(NamedTuple):
    """A name in its parts: 'NVIDIA A100-SXM4-80GB' is the chip 'a100' of form 'sxm' with a memory of '80' GB; empty if not stated."""

    chip: str
    form: str
    memory: str

    @classmethod
    def parse(cls, text: str) -> "DeviceName":
        words = re.sub(r"[^a-z0-9]+", " ", text.casefold()).replace(_DRIVER_NAME, _DRIVER_MEANING)
        words = re.sub(rf"\b({_IGNORED_WORDS})\b", "", words)
        memory = re.search(r"\b(\d+) ?gi?b\b", words)
        words = words.replace(memory[0], "") if memory else words
        form = re.search(r"(sxm|pcie|nvl)\d*\b", words)
        words = words.replace(form[0], "") if form else words
        return cls(words.replace(" ", ""), form[1] if form else "", memory[1] if memory else "")

    def may_mean(self, device: "DeviceName") -> bool:
        """Whether this is a name of a device of the catalogue."""
        stated = zip(self[1:], device[1:], strict=True)
        return self.chip == device.chip and all(not mine or not its or mine == its for mine, its in stated)


@cache
def find_devices(name: str) -> tuple[str, ...]:
    """The devices of the catalogue that a name may mean: one, if it is clear or assumed."""
    known = _catalog_names()
    if name in known:
        return (name,)
    stated = DeviceName.parse(name)
    matching = tuple(device for device, parts in known.items() if stated.may_mean(parts) and _may_have_memory(device, parts, stated))
    return next(((assumed,) for assumed in ASSUMED_DEVICES if assumed in matching), matching)


def nearest_device(name: str) -> str:
    """The device of the catalogue whose name is most similar."""
    chips = {parts.chip: device for device, parts in _catalog_names().items()}
    (nearest,) = difflib.get_close_matches(DeviceName.parse(name).chip[:100], chips, n=1, cutoff=0.0)
    return chips[nearest]


def _may_have_memory(device: str, parts: DeviceName, stated: DeviceName) -> bool:
    """Whether a device whose name has no memory size may be one with the stated size; then the form has to be stated as well."""
    if parts.memory or not stated.memory:
        return True
    accelerator = load_accelerator(device)
    capacity = accelerator.value(f"memory.{accelerator.outermost}.capacity")
    is_near = capacity is not None and abs(float(stated.memory) * 1e9 / capacity - 1) < MEMORY_TOLERANCE
    return is_near and (not parts.form or parts.form == stated.form)


@cache
def _catalog_names() -> dict[str, DeviceName]:
    return {name: DeviceName.parse(name) for name in catalog.list_names("accel_models")}
