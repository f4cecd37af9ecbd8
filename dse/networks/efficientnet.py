"""EfficientNet: inverted bottlenecks with squeeze and excitation, scaled in width and depth (Tan and Le 2019, arXiv 1905.11946)."""

from math import ceil
from typing import ClassVar, Literal

from dse.networks.architecture import Architecture, LayerListBuilder, NetworkInputs, PositiveInt, Scale
from dse.networks.layers import LayerRow

# Expansion, kernel, stride, channels and repeats of each stage of B0 (table 1 of the paper).
STAGES = (
    (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1),
)  # fmt: skip
SQUEEZE = 4  # the gate is as wide as the block's input over this


class EfficientNet(Architecture):
    model_type: Literal["efficientnet"]
    image_size: PositiveInt = 224
    num_channels: PositiveInt = 3
    width_coefficient: Scale = 1.0
    depth_coefficient: Scale = 1.0
    num_labels: PositiveInt = 1000

    inputs: ClassVar[type[NetworkInputs]] = NetworkInputs

    def build_layers(self, inputs: NetworkInputs) -> list[LayerRow]:
        found, before = LayerListBuilder(), self._wide(32)
        size = found.conv("embeddings.convolution", before, self.num_channels, 3, self.image_size, 2, extra=2 * before)
        number = 0
        for expansion, kernel, first, channels, repeats in STAGES:
            for repeat in range(ceil(repeats * self.depth_coefficient)):
                stride, width = first if repeat == 0 else 1, self._wide(channels)
                size = self._block(found, f"encoder.blocks.{number}", before, width, expansion, kernel, stride, size)
                before, number = width, number + 1
        top = self._wide(1280)
        found.conv("encoder.top_conv", top, before, 1, size, extra=2 * top)
        found.linear("classifier", self.num_labels, top, 1)
        return found

    def _wide(self, channels: int) -> int:
        """Channels at this width, to the nearest multiple of 8 that loses no more than a tenth."""
        wanted = channels * self.width_coefficient
        rounded = max(8, int(wanted + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * wanted else rounded

    def _block(
        self, found: LayerListBuilder, name: str, before: int, width: int, expansion: int, kernel: int, stride: int, size: int
    ) -> int:
        inner, gate, above = before * expansion, max(1, before // SQUEEZE), found[-1].name
        added = above if stride == 1 and before == width else ""
        if expansion > 1:
            found.conv(f"{name}.expansion.expand_conv", inner, before, 1, size, extra=2 * inner)
        size = found.conv(f"{name}.depthwise_conv.depthwise_conv", inner, inner, kernel, size, stride, groups=inner, extra=2 * inner)
        depthwise = found[-1].name
        found.moved(f"{name}.squeeze", inner * size**2, inner, per_channel=True)
        found.conv(f"{name}.squeeze_excite.reduce", gate, inner, 1, 1, extra=gate)
        found.conv(f"{name}.squeeze_excite.expand", inner, gate, 1, 1, extra=inner)
        scaled = (depthwise, f"{name}.squeeze_excite.expand")
        found.moved(f"{name}.scale", inner * (size**2 + 1), inner * size**2, reads=scaled, per_channel=True)
        found.conv(f"{name}.projection.project_conv", width, inner, 1, size, extra=2 * width, adds=added)
        return size
