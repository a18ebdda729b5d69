"""Window and features: the last keys stay as they are; those that leave the window are added to a feature state.

With r = C(d + t, t) features of degree t and room for a window of W keys, which leave it k at a time, per KV head:

moved = m (d + dv) + g (n d + n dv): what must be moved
peak  = r (dv+1) w + W'(d + dv) + d + (dv+1) w + (t+2) w
"""

from attenio.planning.approximate.value_columns import columns, feature_count, swept_words
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

TILES = ("degree", "window", "key_tile")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, the heads of a group together."""
    return swept_words(problems, 1)


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once."""
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    window = min(tiles["window"], problems.counts.most_keys)
    state = feature_count(d, tiles["degree"]) * columns(problems) * w
    return state + window * (d + dv) + d + columns(problems) * w + (tiles["degree"] + 2) * w
