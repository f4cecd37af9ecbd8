"""ConvNeXt: 7 x 7 depthwise convolutions between wide linear layers (Liu et al. 2022, arXiv 2201.03545)."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import Architecture, BlockCounts, NetworkInputs, PositiveInt, PositiveInts, check_patches, check_stages
from dse.networks.layer_list import LayerListBuilder
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
        layers, first = LayerListBuilder(), self.hidden_sizes[0]
        size = layers.patch_embedding("embeddings.patch_embeddings", first, self.num_channels, self.patch_size, self.image_size)
        layers.norm("embeddings.layernorm", first, size**2, 2 * first, residual=False)
        in_channels = first
        for stage, (depth, width) in enumerate(zip(self.depths, self.hidden_sizes, strict=True)):
            name = f"encoder.stages.{stage}"
            if stage:
                layers.norm(f"{name}.downsampling_layer.0", in_channels, size**2, 2 * in_channels, residual=False)
                size = layers.conv(f"{name}.downsampling_layer.1", width, in_channels, 2, size, 2, extra=width)
            for number in range(depth):
                self._add_block(layers, f"{name}.layers.{number}", width, size)
            in_channels = width
        layers.norm("layernorm", in_channels, 1, 2 * in_channels, residual=False)
        layers.linear("classifier", self.num_labels, in_channels, 1, prunable=False)
        return layers

    def _add_block(self, layers: LayerListBuilder, name: str, width: int, size: int) -> None:
        block_input = layers[-1].name
        layers.conv(f"{name}.dwconv", width, width, 7, size, groups=width, extra=width)
        layers.norm(f"{name}.layernorm", width, size**2, 3 * width, residual=False)  # with the scale of the residual branch
        layers.linear(f"{name}.pwconv1", 4 * width, width, size**2)
        layers.linear(f"{name}.pwconv2", width, 4 * width, size**2, adds=block_input)
