"""Decoders whose blocks alternate between a window of tokens and all tokens."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dse.base.strict_model import field_error
from dse.networks.architecture import PositiveInt
from dse.networks.llama import Llama

AttentionType = Literal["sliding_attention", "full_attention"]


class AlternatingLlama(Llama):
    """Llama in which every `sliding_window_pattern`-th block attends to all tokens, and the others to `sliding_window` of them.

    `layer_types` says it block by block. The key-value cache of a block with a window keeps the tokens of the window.
    """

    sliding_window_pattern: PositiveInt | None = None
    layer_types: tuple[AttentionType, ...] | None = None

    default_pattern: ClassVar[int] = 2

    @model_validator(mode="after")
    def _check_layer_types(self) -> Self:
        if self.layer_types is not None and len(self.layer_types) != self.num_hidden_layers:
            message = f"{len(self.layer_types)} layer_types for {self.num_hidden_layers} blocks"
            raise field_error(message, "write one for each of num_hidden_layers")
        return self

    def has_window(self, block: int) -> bool:
        """Whether a block attends to a window of tokens only."""
        if self.layer_types is not None:
            return self.layer_types[block] == "sliding_attention"
        return (block + 1) % (self.sliding_window_pattern or self.default_pattern) != 0

    def window(self, block: int) -> int | None:
        return self.sliding_window if self.has_window(block) else None
