"""Best block of value columns: as few sweeps as fit, in blocks as even as possible."""

from attenio.planning.costs.value_columns import columns, peak_words, swept_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems


def best_tiles(problems: Problems, fast_words: int, degree: int, key_tile: int) -> MovingTiles | None:
    """Tiles that move the fewest words, or None if none fits.

    Words grow with the sweeps, and the room needed with the block: the largest block that fits has the fewest sweeps.
    """
    sweeps, block = 1, columns(problems)
    tiles = Tiles.of(degree=degree, value_columns=block, key_tile=key_tile)
    while peak_words(problems, tiles) > fast_words:
        if block == 1:
            return None
        sweeps = -(-columns(problems) // (block - 1))
        block = -(-columns(problems) // sweeps)
        tiles = Tiles.of(degree=degree, value_columns=block, key_tile=key_tile)
    return MovingTiles(swept_words(problems, sweeps), tiles)
