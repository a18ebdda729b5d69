"""Feature state has nothing to choose: it fits or it does not."""

from attenio.planning.costs.feature_state import moved_words, peak_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems


def best_tiles(problems: Problems, fast_words: int, degree: int, key_tile: int) -> MovingTiles | None:
    """The degree, with the words that it moves; None if the state does not fit."""
    tiles = Tiles.of(degree=degree, key_tile=key_tile)
    return MovingTiles(moved_words(problems, tiles), tiles) if peak_words(problems, tiles) <= fast_words else None
