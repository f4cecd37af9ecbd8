"""ResNet with bottlenecks, the stride in their 3 x 3 convolution (He et al. 2015, arXiv 1512.03385)."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import Architecture, BlockCounts, LayerListBuilder, NetworkInputs, PositiveInt, PositiveInts, check_stages
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
        found, before = LayerListBuilder(), self.embedding_size
        size = found.conv("embedder.embedder.convolution", before, self.num_channels, 7, self.image_size, 2, extra=2 * before)
        size = -(-size // 2)  # pooling
        for stage, (depth, width) in enumerate(zip(self.depths, self.hidden_sizes, strict=True)):
            for number in range(depth):
                stride = 2 if stage and not number else 1
                size = self._block(found, f"encoder.stages.{stage}.layers.{number}", before, width, size, stride)
                before = width
        found.linear("classifier.1", self.num_labels, before, 1)
        return found

    def _block(self, found: LayerListBuilder, name: str, before: int, width: int, size: int, stride: int) -> int:
        above = skip = found[-1].name
        if before != width or stride > 1:
            found.conv(skip := f"{name}.shortcut.convolution", width, before, 1, size, stride, extra=2 * width)
        inner = width // 4 if self.layer_type == "bottleneck" else width
        plan = [(1, inner, 1), (3, inner, stride), (1, width, 1)] if inner < width else [(3, width, stride), (3, width, 1)]
        for number, (kernel, out, step) in enumerate(plan):
            links = {"reads": () if number else (above,), "adds": skip if number == len(plan) - 1 else ""}
            size = found.conv(f"{name}.layer.{number}.convolution", out, before, kernel, size, step, extra=2 * out, **links)
            before = out
        return size
