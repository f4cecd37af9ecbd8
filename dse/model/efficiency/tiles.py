"""Output tiles of matrix multiplication kernels, in rows and columns."""

EDGES = (32, 64, 128, 256)
Tile = tuple[int, int]
WIDE_TILES: tuple[Tile, ...] = tuple((rows, columns) for rows in EDGES for columns in EDGES if rows * columns <= 128 * 256)
NARROW_TILES: tuple[Tile, ...] = tuple(tile for long in (64, 256) for short in (1, 8) for tile in ((long, short), (short, long)))
TILES = WIDE_TILES + NARROW_TILES  # narrow ones for products with few rows or columns, which no library pads to 32
MIN_EDGES = (1, 32, 64, 128)  # shortest edges of the tiles that a library may be restricted to
TilesByDepth = tuple[tuple[float, Tile | None], ...]  # (k, the tile from this k on; None: the fastest of all)


def format_tile(tile: Tile | None) -> str | None:
    """Text of a tile, such as `128x64`."""
    return f"{tile[0]}x{tile[1]}" if tile else None


def parse_tile(text: str | None) -> Tile | None:
    """The tile of a text; None if no kernel has such a tile."""
    return next((tile for tile in TILES if format_tile(tile) == text), None)
