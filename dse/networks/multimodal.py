"""Networks that read images and text: an image tower whose outputs take the place of tokens of a language model.

The images of a sample run through the tower in the prefill, as a batch. Decode steps do not run it; one layer that moves nothing has its
parameters. Attention among the tokens of an image is counted as among those of text. The layers of each part are named after it, as in
`vision_model.post_layernorm`.
"""

from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from pydantic import Field

from dse.base.errors import InputError
from dse.networks.architecture import Architecture, GenerationInputs, NetworkInputs
from dse.networks.encoder_decoder import make_idle_layer
from dse.networks.graph import NETWORK_INPUT, SEPARATOR, split_names
from dse.networks.layer_list import LayerListBuilder
from dse.networks.layers import LayerArrays, LayerRow

LANGUAGE_MODEL, IMAGE_PART = "language_model", "vision_model"


def name_part(part: str, rows: Iterable[LayerRow], entry: str = NETWORK_INPUT) -> list[LayerRow]:
    """The layers of a part with its name before theirs; what reads the input of the part reads `entry`."""

    def rename(cell: str | None) -> str | None:
        if cell is None:
            return None
        return SEPARATOR.join(entry if name == NETWORK_INPUT else f"{part}.{name}" for name in split_names(cell))

    renamed = ({"name": f"{part}.{row.name}", "reads": rename(row.reads), "adds": rename(row.adds)} for row in rows)
    return [row.model_copy(update=names) for row, names in zip(rows, renamed, strict=True)]


def repeat_part(rows: list[LayerRow], times: int) -> list[LayerRow]:
    """The layers of a part that runs several times for a sample, as a batch: for each of its images."""
    return LayerArrays.from_rows(rows).at_batch(times).to_rows() if times > 1 else rows


class ImageTextInputs(GenerationInputs):
    """Inputs of a language model that also reads images."""

    images: int = Field(1, ge=0, le=10**6, description="images of a sample; their tokens are among those of `sequence`")


class ImageTextNetwork(Architecture):
    """A language model with an image tower and a projector between them."""

    inputs: ClassVar[type[NetworkInputs]] = ImageTextInputs

    @property
    @abstractmethod
    def tokens_per_image(self) -> int:
        """Tokens of the language model that an image takes."""

    @abstractmethod
    def build_image_part(self, inputs: ImageTextInputs) -> LayerListBuilder:
        """The layers of the image tower and of the projector, for one image."""

    @abstractmethod
    def build_language_model(self, inputs: ImageTextInputs) -> list[LayerRow]:
        """The layers of the language model."""

    def build_layers(self, inputs: ImageTextInputs) -> list[LayerRow]:
        taken = inputs.images * self.tokens_per_image
        if taken > inputs.sequence:
            message = f"{inputs.images} images take {taken} tokens of a sequence of {inputs.sequence}"
            raise InputError(message, f"write fewer images, or sequence >= {taken}")
        images: list[LayerRow] = list(self.build_image_part(inputs))
        embedding, *blocks = name_part(LANGUAGE_MODEL, self.build_language_model(inputs))
        if inputs.phase == "decode" or not inputs.images:
            return [make_idle_layer(IMAGE_PART, images, []), embedding, *blocks]
        reads = SEPARATOR.join((embedding.reads or "", images[-1].name))
        return [*repeat_part(images, inputs.images), embedding.model_copy(update={"reads": reads}), *blocks]
