"""The schema of what a device has besides compute units: memory levels, overhead, and cost."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from dse.base.strict_model import StrictModel
from dse.base.units import Area, Bandwidth, Capacity, Count, EnergyPerByte, Frequency, Length, Power, Time, TransferRate, Width
from dse.schema.memory_technology import check_technology

DesignFamily = Literal["gpu", "accelerator", "block"]


class Memory(StrictModel):
    """A memory level."""

    capacity: Capacity | None = Field(None, description="size of the level; it may follow from 'channels' and 'channel_capacity'")
    bandwidth: Bandwidth | None = Field(
        None,
        description="rate of reads and writes, which the outermost level needs; it may follow from 'channels', 'width' and 'rate'",
    )
    technology: Annotated[str, AfterValidator(check_technology)] | None = Field(
        None,
        description="gives the width, rate, energy, interface and capacity of a channel where they are not stated",
        examples=["lpddr5x"],
    )
    channels: Count | None = Field(None, description="independent channels or stacks of a DRAM; slices or banks of an SRAM")
    width: Width | None = Field(None, description="data width of a channel")
    rate: TransferRate | None = Field(None, description="transfers of each data pin; of an SRAM its clock")
    channel_capacity: Capacity | None = Field(None, description="capacity of a channel or slice")
    interface: Area | None = Field(None, description="area of the physical layer and controller of a channel; default: of the cost model")
    energy: EnergyPerByte | None = Field(None, description="of a byte read or written; default: of the cost model")


class Overhead(StrictModel):
    """Time outside compute and memory."""

    launch: Time | None = Field(None, description="of each kernel, under 'calibrated'; default: as fitted")
    host_launch: Time | None = Field(
        None, description="of the host, for each kernel that it launches ('runtime: eager'); default: estimated, under 'calibrated'"
    )
    host_run: Time | None = Field(
        None, description="of the host, for each run of such a network, in addition; default: 0 with 'host_launch', else estimated"
    )


class Cost(StrictModel):
    """Published area, power and process of a die."""

    area: Area | None = Field(None, description="published silicon area; variations of the device are scaled from it")
    family: DesignFamily = Field(
        default="accelerator",
        description="gpu: multiprocessors with registers and schedulers; accelerator: arrays with scratchpads, as in a TPU or an inference"
        " card; block: an accelerator inside a larger chip",
    )
    fixed: Area | None = Field(
        default=None,
        description="area outside compute and memory (host interface, control); default: that of published dies of the family and size",
    )
    power: Power | None = Field(None, description="published power at full load; variations of the device are scaled from it")
    sustained_clock: Frequency | None = Field(
        None, description="clock that the power sustains at full load; default: from base_clock, else the clock of the peaks"
    )
    base_clock: Frequency | None = Field(
        None,
        description="clock that the vendor guarantees, as the base clock of a GPU; full load is taken to run at the geometric mean of it"
        " and the clock of the peaks",
    )
    idle: Power | None = Field(None, description="power without work, clocks running; default: leakage of the cost model")
    process: Length | None = Field(None, description="technology node, 3 to 28 nm; needed for area, power and energy")
