"""Best tiles with resident keys: all move the compulsory words, so one row at a time will do."""

from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems
from attenio.weight_gradient.costs import resident_keys


def best_tiles(problems: Problems, fast_words: int) -> MovingTiles | None:
    """One row and as many of its scores as fit, or None if keys and weights do not fit beside it."""
    w = problems.intermediate_words
    one = Tiles.of(query_tile=1, key_tile=1)
    spare = fast_words - resident_keys.peak_words(problems, one)
    if spare < 0:
        return None
    tiles = Tiles.of(query_tile=1, key_tile=min(problems.most_keys, 1 + spare // w))
    return MovingTiles(resident_keys.moved_words(problems, tiles), tiles)
