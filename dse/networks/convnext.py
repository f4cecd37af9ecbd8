"""ConvNeXt: 7 x 7 depthwise convolutions between wide linear layers (Liu et al. 2022, arXiv 2201.03545)."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import (
    Architecture,
    BlockCounts,
    LayerListBuilder,
    NetworkInputs,
    PositiveInt,
    PositiveInts,
    check_patches,
    check_stages,
)
from dse.networks.layers import LayerRow


class ConvNeXt(Architecture):
    model_type: Literal["convnext"]
    image_size: PositiveInt
    patch_size: PositiveInt = 4
    num_channels: PositiveInt = 3
    hidden_sizes: PositiveInts
    depths: BlockCounts
    num_labels: PositiveInt = 1000

    inputs: ClassVar[type[NetworkInputs]] = NetworkInputs

    @model_validator(mode="after")
    def _check_stages(self) -> Self:
        check_stages(depths=self.depths, hidden_sizes=self.hidden_sizes)
        check_patches(self.image_size, self.patch_size)
        return self

    def build_layers(self, inputs: NetworkInputs) -> list[LayerRow]:
        found, first = LayerListBuilder(), self.hidden_sizes[0]
        size = found.patches("embeddings.patch_embeddings", first, self.num_channels, self.patch_size, self.image_size)
        found.norm("embeddings.layernorm", first, size**2, 2 * first, residual=False)
        before = first
        for stage, (depth, width) in enumerate(zip(self.depths, self.hidden_sizes, strict=True)):
            name = f"encoder.stages.{stage}"
            if stage:
                found.norm(f"{name}.downsampling_layer.0", before, size**2, 2 * before, residual=False)
                size = found.conv(f"{name}.downsampling_layer.1", width, before, 2, size, 2, extra=width)
            for number in range(depth):
                self._block(found, f"{name}.layers.{number}", width, size)
            before = width
        found.norm("layernorm", before, 1, 2 * before, residual=False)
        found.linear("classifier", self.num_labels, before, 1, prunable=False)
        return found

    def _block(self, found: LayerListBuilder, name: str, width: int, size: int) -> None:
        before = found[-1].name
        found.conv(f"{name}.dwconv", width, width, 7, size, groups=width, extra=width)
        found.norm(f"{name}.layernorm", width, size**2, 3 * width, residual=False)  # with the scale of the residual branch
        found.linear(f"{name}.pwconv1", 4 * width, width, size**2)
        found.linear(f"{name}.pwconv2", width, 4 * width, size**2, adds=before)
