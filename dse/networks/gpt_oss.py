"""GPT-OSS: mixtures of experts with biases, and blocks that alternate between a window of 128 tokens and all tokens.

OpenAI 2025, arXiv 2508.10925. A learned sink of each head takes part in its softmax and has no key or value. Published experts are MXFP4:
the dtype is that of a sweep.
"""

from typing import Literal, Self

from pydantic import model_validator

from dse.networks.architecture import PositiveInt
from dse.networks.experts import add_experts, add_router, check_experts
from dse.networks.layer_list import LayerListBuilder
from dse.networks.llama import AlternatingLlama


class GPTOSS(AlternatingLlama):
    model_type: Literal["gpt_oss"]  # type: ignore[assignment]
    num_local_experts: PositiveInt
    num_experts_per_tok: PositiveInt
    attention_bias: bool = True
    sliding_window: PositiveInt | None = 128

    @model_validator(mode="after")
    def _check_experts(self) -> Self:
        check_experts(self.num_experts_per_tok, self.num_local_experts)
        return self

    @property
    def attention_parameters(self) -> int:
        """The sinks: one for each head."""
        return self.num_attention_heads

    def _add_feed_forward(self, layers: LayerListBuilder, block: int, positions: int) -> None:
        name, hidden = f"model.layers.{block}", self.hidden_size
        at, norm = f"{name}.mlp", f"{name}.post_attention_layernorm"
        layers.norm(norm, hidden, positions, hidden)
        add_router(layers, f"{at}.router", self.num_local_experts, hidden, positions, bias=True)
        add_experts(
            layers, at, hidden, self.intermediate_size, positions, self.num_local_experts, self.num_experts_per_tok,
            units=("gate_up_proj",), bias=True, reads=(norm, f"{at}.router"),
        )  # fmt: skip
