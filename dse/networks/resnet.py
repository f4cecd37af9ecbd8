"""ResNet with bottlenecks, the stride in their 3 x 3 convolution (He et al. 2015, arXiv 1512.03385)."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import Architecture, BlockCounts, NetworkInputs, PositiveInt, PositiveInts, check_stages
from dse.networks.layer_list import LayerListBuilder
from dse.networks.layers import LayerRow


class ResNet(Architecture):
    model_type: Literal["resnet"]
    image_size: PositiveInt = 224
    num_channels: PositiveInt = 3
    embedding_size: PositiveInt = 64
    hidden_sizes: PositiveInts
    depths: BlockCounts
    layer_type: Literal["bottleneck", "basic"] = "bottleneck"
    num_labels: PositiveInt = 1000

    inputs: ClassVar[type[NetworkInputs]] = NetworkInputs

    @model_validator(mode="after")
    def _check_stages(self) -> Self:
        check_stages(depths=self.depths, hidden_sizes=self.hidden_sizes)
        return self

    def build_layers(self, inputs: NetworkInputs) -> list[LayerRow]:
        layers, in_channels = LayerListBuilder(), self.embedding_size
        size = layers.conv("embedder.embedder.convolution", in_channels, self.num_channels, 7, self.image_size, 2, extra=2 * in_channels)
        size = -(-size // 2)  # pooling
        for stage, (depth, out_channels) in enumerate(zip(self.depths, self.hidden_sizes, strict=True)):
            for number in range(depth):
                stride = 2 if stage and not number else 1
                size = self._add_block(layers, f"encoder.stages.{stage}.layers.{number}", in_channels, out_channels, size, stride)
                in_channels = out_channels
        layers.linear("classifier.1", self.num_labels, in_channels, 1)
        return layers

    def _add_block(self, layers: LayerListBuilder, name: str, in_channels: int, out_channels: int, size: int, stride: int) -> int:
        block_input = skip = layers[-1].name
        if in_channels != out_channels or stride > 1:
            layers.conv(skip := f"{name}.shortcut.convolution", out_channels, in_channels, 1, size, stride, extra=2 * out_channels)
        inner = out_channels // 4 if self.layer_type == "bottleneck" else out_channels
        if inner < out_channels:
            plan = [(1, inner, 1), (3, inner, stride), (1, out_channels, 1)]  # kernel, channels, stride
        else:
            plan = [(3, out_channels, stride), (3, out_channels, 1)]
        for number, (kernel, out, step) in enumerate(plan):
            links = {"reads": () if number else (block_input,), "adds": skip if number == len(plan) - 1 else ""}
            size = layers.conv(f"{name}.layer.{number}.convolution", out, in_channels, kernel, size, step, extra=2 * out, **links)
            in_channels = out
        return size
