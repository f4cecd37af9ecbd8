"""Files of fitted kernels, of matrix products and of fused attention, and which of them a result is computed with."""

from functools import cache
from pathlib import Path

from pydantic import Field

from dse.base.strict_model import StrictModel
from dse.base.yaml_document import load_document
from dse.model.efficiency.attention.record import AttentionRecord
from dse.model.efficiency.kernels.record import KernelRecord
from dse.schema.accelerator import Accelerator
from dse.schema.model_options import ModelOptions

SHIPPED = Path(__file__).with_name("efficiencies.yaml")
SHIPPED_ATTENTION = Path(__file__).with_name("attention.yaml")

FittedRecord = KernelRecord | AttentionRecord  # of a product, or of a fused attention


class EfficiencyFile(StrictModel):
    """The content of efficiencies.yaml, as `dse calibrate` writes it."""

    command: str
    version: str
    measurements: dict[str, str] = Field(description="SHA-256 of each file of measurements")
    kernels: tuple[KernelRecord, ...]
    attention: tuple[AttentionRecord, ...] = Field(default=(), description="fused attention kernels")

    @property
    def records(self) -> tuple[FittedRecord, ...]:
        """All fitted kernels."""
        return *self.kernels, *self.attention


def load_efficiency_file(path: Path) -> EfficiencyFile:
    """Read a file of fitted kernels; raises InputError."""
    return load_document(path).validate(EfficiencyFile)


def available_kernels(accelerator: Accelerator, options: ModelOptions, folder: Path | None = None) -> tuple[FittedRecord, ...]:
    """The fitted kernels, of products and of fused attention, that `options` name, else those of the description, else the shipped ones.

    The path in `options` is relative to `folder`. Empty unless the fidelity is `calibrated`. Raises InputError.
    """
    if options.fidelity != "calibrated":
        return ()
    if options.efficiencies is not None:
        return load_efficiency_file((folder or Path()) / options.efficiencies).records
    if accelerator.efficiencies is not None:
        return load_efficiency_file(accelerator.document.path.parent / accelerator.efficiencies).records
    return *shipped_kernels(), *shipped_attention()


@cache
def shipped_kernels() -> tuple[KernelRecord, ...]:
    """The kernels of matrix products of the package."""
    return load_efficiency_file(SHIPPED).kernels


@cache
def shipped_attention() -> tuple[AttentionRecord, ...]:
    """The fused attention kernels of the package."""
    return load_efficiency_file(SHIPPED_ATTENTION).attention
