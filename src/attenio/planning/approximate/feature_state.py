"""Feature state: the features of all columns of [1, V] stay in fast memory, and everything else passes once.

With r = C(d + t, t) features of degree t and tiles of k keys, per KV head:

moved = m (d + dv) + g (n d + n dv): what must be moved
peak  = r (dv+1) w + k'(d + dv) + d + (dv+1) w + (t+1) w
"""

from attenio.planning.approximate.value_columns import columns, feature_count, swept_state_words, swept_words
from attenio.planning.plan import MovingTiles, Tiles
from attenio.planning.problems import Problems

TILES = ("degree", "key_tile")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, the heads of a group together."""
    return swept_words(problems, 1)


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once."""
    features = feature_count(problems.d, tiles["degree"])
    return swept_state_words(problems, tiles, features, (problems.d, columns(problems)))


def best_tiles(problems: Problems, fast_words: int, degree: int, key_tile: int) -> MovingTiles | None:
    """The degree, with the words that it moves; None if the state does not fit."""
    tiles = Tiles.of(degree=degree, key_tile=key_tile)
    return MovingTiles(moved_words(problems, tiles), tiles) if peak_words(problems, tiles) <= fast_words else None
