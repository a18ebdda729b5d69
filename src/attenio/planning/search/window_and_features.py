"""Best window beside a feature state: as many keys as still fit, since none of them costs a word more."""

from math import isqrt

from attenio.planning.costs.window_and_features import moved_words, peak_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems

__all__ = ["best_tiles"]


def best_tiles(problems: Problems, fast_words: int, degree: int, key_tile: int) -> MovingTiles | None:
    """The widest window that fits, or None if not one tile of keys does; every window moves the same words."""
    least = min(key_tile, problems.most_keys)
    tiles = Tiles.of(degree=degree, window=least, key_tile=least)
    spare = fast_words - peak_words(problems, tiles)
    if spare < 0:
        return None
    window = min(problems.most_keys, least + spare // (problems.d + problems.value_dim))
    # tiles of the square root are added up with the fewest roundings; half of the window stays at any time
    leaving = max(least, min(window // 2, isqrt(problems.most_keys - 1) + 1))
    return MovingTiles(moved_words(problems, tiles), Tiles.of(degree=degree, window=window, key_tile=leaving))
