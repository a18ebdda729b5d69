"""Stacked groups: AttenIO's nest over a tile of positions times a tile of the heads that share their keys.

moved = g (L(p) d + n dv) + ceil(g/h) U(p)(d + dv)
peak  = as AttenIO with h'p' rows
"""

from attenio.planning.costs.attenio import head_tiles, query_stationary_words, resident_words
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["TILES", "moved_words", "peak_words"]

TILES = ("query_tile", "head_tile", "key_tile")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, the heads of a group together."""
    p, h = tiles["query_tile"], tiles["head_tile"]
    heads = problems.group
    return problems.runs * query_stationary_words(problems, p, heads=heads, head_tiles=head_tiles(problems, h))


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the largest problem."""
    p, h, b = (tiles[name] for name in TILES)
    heads, buffer = min(h, problems.group), max(problems.d, problems.value_dim)
    return max(resident_words(problems, heads * min(p, rows), min(b, keys), buffer) for rows, keys in problems.shapes)
