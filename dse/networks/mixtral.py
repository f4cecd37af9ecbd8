"""Mixtures of experts with the blocks of Llama: Mixtral (Jiang et al. 2024, arXiv 2401.04088) and Qwen3-MoE (arXiv 2505.09388)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dse.networks.architecture import PositiveInt
from dse.networks.experts import add_experts, add_router, check_experts
from dse.networks.layer_list import LayerListBuilder
from dse.networks.llama import Llama

BlockNumber = Annotated[int, Field(strict=True, ge=0)]


class Mixtral(Llama):
    """Llama with a mixture of experts: each token uses `num_experts_per_tok` of the feed-forward networks."""

    model_type: Literal["mixtral"]  # type: ignore[assignment]
    num_local_experts: PositiveInt
    num_experts_per_tok: PositiveInt

    @model_validator(mode="after")
    def _check_experts(self) -> Self:
        check_experts(self.num_experts_per_tok, self.num_local_experts)
        return self

    def _add_feed_forward(self, layers: LayerListBuilder, block: int, positions: int) -> None:
        name, hidden = f"model.layers.{block}", self.hidden_size
        at, norm = f"{name}.block_sparse_moe", f"{name}.post_attention_layernorm"
        layers.norm(norm, hidden, positions, hidden)
        add_router(layers, f"{at}.gate", self.num_local_experts, hidden, positions)
        add_experts(
            layers, at, hidden, self.intermediate_size, positions, self.num_local_experts, self.num_experts_per_tok,
            units=("w1", "w3"), down="w2", reads=(norm, f"{at}.gate"),
        )  # fmt: skip


class Qwen3MoE(Llama):
    """Qwen3 with a mixture of experts in every `decoder_sparse_step`-th block, those of `mlp_only_layers` left out."""

    model_type: Literal["qwen3_moe"]  # type: ignore[assignment]
    num_experts: PositiveInt
    num_experts_per_tok: PositiveInt
    moe_intermediate_size: PositiveInt
    decoder_sparse_step: PositiveInt = 1
    mlp_only_layers: tuple[BlockNumber, ...] = ()

    @model_validator(mode="after")
    def _check_experts(self) -> Self:
        check_experts(self.num_experts_per_tok, self.num_experts, "num_experts_per_tok <= num_experts")
        return self

    def normalizes_heads(self, block: int) -> bool:
        return True

    def has_experts(self, block: int) -> bool:
        """Whether a block has experts instead of one feed-forward network."""
        return block not in self.mlp_only_layers and (block + 1) % self.decoder_sparse_step == 0

    def _add_feed_forward(self, layers: LayerListBuilder, block: int, positions: int) -> None:
        if not self.has_experts(block):
            super()._add_feed_forward(layers, block, positions)
            return
        at, norm, hidden = f"model.layers.{block}.mlp", f"model.layers.{block}.post_attention_layernorm", self.hidden_size
        layers.norm(norm, hidden, positions, hidden)
        add_router(layers, f"{at}.gate", self.num_experts, hidden, positions)
        add_experts(
            layers, at, hidden, self.moe_intermediate_size, positions, self.num_experts, self.num_experts_per_tok,
            reads=(norm, f"{at}.gate"),
        )  # fmt: skip
