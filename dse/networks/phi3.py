"""Phi-3 and Phi-4: Llama whose projections are fused: one of queries, keys and values, one of gate and up.

Abdin et al. 2024, arXiv 2404.14219 (Phi-3) and 2412.08905 (Phi-4).
"""

from typing import Literal

from dse.networks.architecture import GenerationInputs
from dse.networks.layer_list import LayerListBuilder
from dse.networks.llama import Llama, Projections


class Phi3(Llama):
    model_type: Literal["phi3"]  # type: ignore[assignment]

    def _project(self, layers: LayerListBuilder, block: int, inputs: GenerationInputs) -> Projections:
        name, cached = f"model.layers.{block}.self_attn.qkv_proj", 2 * self.cached_elements(block, inputs)
        width = self.query_width + 2 * self.key_width
        layers.linear(name, width, self.hidden_size, inputs.queries, self.has_qkv_bias, cache_elements=cached)
        return Projections(name, name, name)

    def _add_feed_forward(self, layers: LayerListBuilder, block: int, positions: int) -> None:
        name, hidden, inner = f"model.layers.{block}", self.hidden_size, self.intermediate_size
        layers.norm(f"{name}.post_attention_layernorm", hidden, positions, hidden)
        layers.linear(f"{name}.mlp.gate_up_proj", 2 * inner, hidden, positions, self.mlp_bias)
        layers.elementwise(f"{name}.mlp.product", 2 * inner * positions, inner * positions)
        layers.linear(f"{name}.mlp.down_proj", hidden, inner, positions, self.mlp_bias)
