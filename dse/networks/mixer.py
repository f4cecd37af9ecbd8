"""MLP-Mixer: linear layers that alternate between patches and channels (Tolstikhin et al. 2021, arXiv 2105.01601)."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.networks.architecture import Architecture, BlockCount, NetworkInputs, PositiveInt, check_patches
from dse.networks.layer_list import LayerListBuilder
from dse.networks.layers import LayerRow


class Mixer(Architecture):
    model_type: Literal["mlp_mixer"]
    image_size: PositiveInt
    patch_size: PositiveInt
    num_channels: PositiveInt = 3
    hidden_size: PositiveInt
    tokens_mlp_dim: PositiveInt
    channels_mlp_dim: PositiveInt
    num_hidden_layers: BlockCount
    num_labels: PositiveInt = 1000

    inputs: ClassVar[type[NetworkInputs]] = NetworkInputs

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        check_patches(self.image_size, self.patch_size)
        return self

    def build_layers(self, inputs: NetworkInputs) -> list[LayerRow]:
        layers, hidden = LayerListBuilder(), self.hidden_size
        patches = (self.image_size // self.patch_size) ** 2
        layers.patch_embedding("stem", hidden, self.num_channels, self.patch_size, self.image_size)
        for number in range(self.num_hidden_layers):
            name = f"blocks.{number}"
            layers.norm(f"{name}.norm1", hidden, patches, 2 * hidden)
            layers.linear(f"{name}.mlp_tokens.fc1", self.tokens_mlp_dim, patches, hidden)
            layers.linear(f"{name}.mlp_tokens.fc2", patches, self.tokens_mlp_dim, hidden)
            layers.norm(f"{name}.norm2", hidden, patches, 2 * hidden)
            layers.linear(f"{name}.mlp_channels.fc1", self.channels_mlp_dim, hidden, patches)
            layers.linear(f"{name}.mlp_channels.fc2", hidden, self.channels_mlp_dim, patches)
        layers.norm("norm", hidden, patches, 2 * hidden)
        layers.linear("head", self.num_labels, hidden, 1, prunable=False)
        return layers
