"""EfficientNet: inverted bottlenecks with squeeze and excitation, scaled in width and depth (Tan and Le 2019, arXiv 1905.11946)."""

from math import ceil
from typing import ClassVar, Literal

from dse.networks.architecture import Architecture, Multiplier, NetworkInputs, PositiveInt
from dse.networks.layer_list import LayerListBuilder
from dse.networks.layers import LayerRow

# Expansion, kernel, stride, channels and repeats of each stage of B0 (table 1 of the paper).
STAGES = (
    (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1),
)  # fmt: skip
SQUEEZE = 4  # channels of a block's input divided by those of its gate


class EfficientNet(Architecture):
    model_type: Literal["efficientnet"]
    image_size: PositiveInt = 224
    num_channels: PositiveInt = 3
    width_coefficient: Multiplier = 1.0
    depth_coefficient: Multiplier = 1.0
    num_labels: PositiveInt = 1000

    inputs: ClassVar[type[NetworkInputs]] = NetworkInputs

    def build_layers(self, inputs: NetworkInputs) -> list[LayerRow]:
        layers, in_channels = LayerListBuilder(), self._scaled_channels(32)
        size = layers.conv("embeddings.convolution", in_channels, self.num_channels, 3, self.image_size, 2, extra=2 * in_channels)
        number = 0
        for expansion, kernel, first, channels, repeats in STAGES:
            for repeat in range(ceil(repeats * self.depth_coefficient)):
                stride, out_channels = first if repeat == 0 else 1, self._scaled_channels(channels)
                size = self._add_block(layers, f"encoder.blocks.{number}", in_channels, out_channels, expansion, kernel, stride, size)
                in_channels, number = out_channels, number + 1
        top = self._scaled_channels(1280)
        layers.conv("encoder.top_conv", top, in_channels, 1, size, extra=2 * top)
        layers.linear("classifier", self.num_labels, top, 1)
        return layers

    def _scaled_channels(self, channels: int) -> int:
        """Channels of a layer of B0 at this width: the nearest multiple of 8 that is at least 90% of the exact number."""
        exact = channels * self.width_coefficient
        rounded = max(8, int(exact + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * exact else rounded

    def _add_block(
        self, layers: LayerListBuilder, name: str, in_channels: int, out_channels: int, expansion: int, kernel: int, stride: int, size: int
    ) -> int:
        inner, gate, block_input = in_channels * expansion, max(1, in_channels // SQUEEZE), layers[-1].name
        added = block_input if stride == 1 and in_channels == out_channels else ""
        if expansion > 1:
            layers.conv(f"{name}.expansion.expand_conv", inner, in_channels, 1, size, extra=2 * inner)
        size = layers.conv(f"{name}.depthwise_conv.depthwise_conv", inner, inner, kernel, size, stride, groups=inner, extra=2 * inner)
        depthwise = layers[-1].name
        layers.elementwise(f"{name}.squeeze", inner * size**2, inner, per_channel=True)
        layers.conv(f"{name}.squeeze_excite.reduce", gate, inner, 1, 1, extra=gate)
        layers.conv(f"{name}.squeeze_excite.expand", inner, gate, 1, 1, extra=inner)
        scaled = (depthwise, f"{name}.squeeze_excite.expand")
        layers.elementwise(f"{name}.scale", inner * (size**2 + 1), inner * size**2, reads=scaled, per_channel=True)
        layers.conv(f"{name}.projection.project_conv", out_channels, inner, 1, size, extra=2 * out_channels, adds=added)
        return size
