"""Tiles of a dense product that kernels cut their output into, in rows and columns."""

EDGES = (32, 64, 128, 256)
Tile = tuple[int, int]
WIDE: tuple[Tile, ...] = tuple((rows, columns) for rows in EDGES for columns in EDGES if rows * columns <= 128 * 256)
NARROW: tuple[Tile, ...] = tuple(tile for long in (64, 256) for short in (1, 8) for tile in ((long, short), (short, long)))
TILES = WIDE + NARROW  # narrow ones for products with few rows or columns, of which no library computes many more
LEAST = (1, 32, 64, 128)  # edges below which a library may have no tiles
Deeper = tuple[tuple[float, Tile | None], ...]  # from which k on a kernel takes which other tile (None: the fastest)


def text(tile: Tile | None) -> str | None:
    return f"{tile[0]}x{tile[1]}" if tile else None


def named(written: str | None) -> Tile | None:
    """The tile that a text names; None where there is none such."""
    return next((tile for tile in TILES if text(tile) == written), None)
