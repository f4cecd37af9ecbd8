"""Sizes of the attention of the networks whose modules were measured, from their published configurations.

DeepSeek-V3.2   arXiv 2512.02556, section 2.1; config.json of deepseek-ai/DeepSeek-V3.2-Exp. DSA on latent attention
GLM-5           config.json of zai-org/GLM-5 (`GlmMoeDsaForCausalLM`). DSA on latent attention
MiniMax-M3      config.json of MiniMaxAI/MiniMax-M3; arXiv 2606.13392. MSA on grouped queries
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class LatentShape:
    """Latent attention with an indexer (DSA): each query attends to the `chosen` tokens with the highest scores, for all heads together."""

    hidden: int
    heads: int  # of the whole network; a device may have a part of them
    query_rank: int
    latent: int
    content: int  # elements of a query head without its rotary part
    rotary: int
    value: int
    index_heads: int
    index_size: int
    chosen: int

    @property
    def entry(self) -> int:
        """Elements of a token in the cache."""
        return self.latent + self.rotary


@dataclass(frozen=True)
class GroupedShape:
    """Grouped queries with an indexer (MSA): each query attends to the `chosen_blocks` blocks with the highest scores, its own included.

    Each head of keys has an index head and chooses on its own.
    """

    hidden: int
    heads: int
    kv_heads: int
    size: int
    index_size: int
    block: int
    chosen_blocks: int

    @property
    def group(self) -> int:
        """Query heads that share a head of keys."""
        return self.heads // self.kv_heads

    @property
    def chosen(self) -> int:
        """Keys that a query attends to."""
        return self.block * self.chosen_blocks


ModuleShape = LatentShape | GroupedShape
GLM_5 = LatentShape(
    hidden=6144, heads=64, query_rank=2048, latent=512, content=192, rotary=64, value=256, index_heads=32, index_size=128, chosen=2048
)
DEEPSEEK_V32 = LatentShape(
    hidden=7168, heads=128, query_rank=1536, latent=512, content=128, rotary=64, value=128, index_heads=64, index_size=128, chosen=2048
)
MINIMAX_M3 = GroupedShape(hidden=6144, heads=64, kv_heads=4, size=128, index_size=128, block=128, chosen_blocks=16)
MODULE_SHAPES: dict[str, ModuleShape] = {"deepseek-v3.2": DEEPSEEK_V32, "glm-5": GLM_5, "minimax-m3": MINIMAX_M3}
