"""Networks that consist of other networks: the layers of each part are named after it, as in `vision_model.post_layernorm`."""

from collections.abc import Iterable

from dse.networks.graph import NETWORK_INPUT, SEPARATOR, split_names
from dse.networks.layers import LayerArrays, LayerRow


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
