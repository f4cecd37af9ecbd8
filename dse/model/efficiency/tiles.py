"""Output tiles of matrix multiplication kernels, in rows and columns."""

EDGES = (8, 16, 32, 64, 128, 256)
Tile = tuple[int, int]
BLOCK_TILES: tuple[Tile, ...] = tuple(
    (rows, columns) for rows in EDGES for columns in EDGES if max(rows, columns) >= 64 or rows == columns == 32
)
VECTOR_TILES: tuple[Tile, ...] = tuple(tile for long in (64, 256) for tile in ((long, 1), (1, long)))  # for products with a vector
TILES = BLOCK_TILES + VECTOR_TILES
WIDE_TILES = tuple(tile for tile in BLOCK_TILES if min(tile) >= 32 and tile[0] * tile[1] <= 128 * 256)
MIN_EDGES = (1, 32, 64, 128)  # shortest edges of the tiles that a library may be restricted to


def format_tile(tile: Tile | None) -> str | None:
    """Text of a tile, such as `128x64`."""
    return f"{tile[0]}x{tile[1]}" if tile else None


def parse_tile(text: str | None) -> Tile | None:
    """The tile of a text; None if no kernel has such a tile."""
    return next((tile for tile in TILES if format_tile(tile) == text), None)
