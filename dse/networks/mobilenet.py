"""MobileNetV1: alternating depthwise 3 x 3 and pointwise convolutions (Howard et al. 2017, arXiv 1704.04861)."""

from typing import ClassVar, Literal

from dse.networks.architecture import Architecture, Multiplier, NetworkInputs, PositiveInt
from dse.networks.layer_list import LayerListBuilder
from dse.networks.layers import LayerRow

# Output channels at width 1 and stride of each pair (table 1 of the paper).
PAIRS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))


class MobileNetV1(Architecture):
    model_type: Literal["mobilenet_v1"]
    image_size: PositiveInt = 224
    num_channels: PositiveInt = 3
    depth_multiplier: Multiplier = 1.0
    num_labels: PositiveInt = 1000

    inputs: ClassVar[type[NetworkInputs]] = NetworkInputs

    def build_layers(self, inputs: NetworkInputs) -> list[LayerRow]:
        layers, width = LayerListBuilder(), self._scaled_channels(32)
        size = layers.conv("conv_stem.convolution", width, self.num_channels, 3, self.image_size, 2, extra=2 * width)
        for number, (channels, stride) in enumerate(PAIRS):
            out = self._scaled_channels(channels)
            size = layers.conv(f"layer.{2 * number}.convolution", width, width, 3, size, stride, groups=width, extra=2 * width)
            layers.conv(f"layer.{2 * number + 1}.convolution", out, width, 1, size, extra=2 * out)
            width = out
        layers.linear("classifier", self.num_labels, width, 1)
        return layers

    def _scaled_channels(self, channels: int) -> int:
        return max(8, int(channels * self.depth_multiplier))
