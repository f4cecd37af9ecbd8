"""What a fit determines of a kernel: sixteen parameters, each with meaning, unit, prior and bounds, and the tiles of its library."""

import numpy as np

from dse.model.efficiency.parameter import Distribution, Parameter, Theta, theta_to_values, values_to_theta

PARAMETERS = (
    Parameter("launch", "s", 4e-6, 0.5, 1e-7, 1e-3, "time of a launch before it computes anything", is_of_device=True),
    Parameter("energy", "J/FLOP", 1.3e-12, 0.5, 1e-13, 1e-11, "energy of an operation of 16 bit at 7 nm: sets the clock",
        is_of_device=True),
    Parameter("extra_stored", "1", 0.06, 1.0, 1e-4, 100, "further issue slots for each stored multiply-add"),
    Parameter("extra_dense", "1", 0.01, 1.5, 1e-5, 10, "issue slots for each dense multiply-add: loads of inputs, used or not"),
    Parameter("fill", "1", 60.0, 1.0, 0.1, 1e4, "multiply-adds of an output for which its prologue and epilogue take as long"),
    Parameter("edge", "1", 4.0, 1.0, 0.01, 1e3, "loads of a tile: issue slots grow by the factor 1 + edge (1/rows + 1/columns)"),
    Parameter("operands", "1", 70.0, 0.5, 1, 1e4, "edge of a square tile that loads from the cache as long as it computes",
        is_of_device=True),
    Parameter("tail", "1", 0.62, 1.0, 0.01, 0.99, "exponent of the loss by an unfilled wave: 0 for none of it, 1 for all", is_share=True),
    Parameter("bandwidth", "1", 0.88, 0.7, 0.05, 0.99, "achievable share of the memory's bandwidth", is_share=True, is_of_device=True),
    Parameter("resident", "1", 0.45, 1.0, 1e-3, 10, "share of the cache in which repeated launches find operands", is_of_device=True),
    Parameter("columns", "1", 512.0, 1.0, 8, 1e5, "columns of B that are gathered from at once: k x columns against the cache"),
    Parameter("reuse", "1", 4.0, 0.7, 1, 1e3, "multiply-adds that share one element gathered from memory"),
    Parameter("contention", "1", 1e-3, 1.0, 1e-8, 10, "issue slots that a gathering multiply-add waits for each other of its row"),
    Parameter("crowding", "1", 0.35, 0.5, 0.01, 100, "bytes of a row over a scratchpad from which on that wait is longer"),
    Parameter("split", "s", 2e-6, 1.0, 1e-9, 1e-3, "time to start the addition of the partial sums of a split k"),
    Parameter("flight", "1", 8.0, 1.0, 0.1, 1e3, "tiles that a processor has to work on at once to hide their latency"),
)  # fmt: skip
PRIOR = Distribution(np.array([p.to_theta(p.prior) for p in PARAMETERS]), np.array([p.deviation for p in PARAMETERS]))
LOWER_BOUND = np.array([p.to_theta(p.low) for p in PARAMETERS])
UPPER_BOUND = np.array([p.to_theta(p.high) for p in PARAMETERS])

# Output tiles, in rows and columns.
EDGES = (8, 16, 32, 64, 128, 256)
Tile = tuple[int, int]
BLOCK_TILES: tuple[Tile, ...] = tuple(
    (rows, columns) for rows in EDGES for columns in EDGES if max(rows, columns) >= 64 or rows == columns == 32
)
VECTOR_TILES: tuple[Tile, ...] = tuple(tile for long in (64, 256) for tile in ((long, 1), (1, long)))  # for products with a vector
TILES = BLOCK_TILES + VECTOR_TILES
WIDE_TILES = tuple(tile for tile in BLOCK_TILES if min(tile) >= 32 and tile[0] * tile[1] <= 128 * 256)
MIN_EDGES = (1, 32, 64, 128)  # shortest edges of the tiles that a library may be restricted to


def kernel_values(theta: Theta) -> dict[str, float]:
    """Value of each parameter by its name."""
    return theta_to_values(theta, PARAMETERS)


def kernel_theta(values: dict[str, float]) -> Theta:
    """Theta of the values by name, in the order of `PARAMETERS`."""
    return values_to_theta(values, PARAMETERS)


def format_tile(tile: Tile | None) -> str | None:
    """Text of a tile, such as `128x64`."""
    return f"{tile[0]}x{tile[1]}" if tile else None


def parse_tile(text: str | None) -> Tile | None:
    """The tile of a text; None if no kernel has such a tile."""
    return next((tile for tile in TILES if format_tile(tile) == text), None)
