"""FlashAttention-2: the nest of AttenIO with a tile of K and one of V resident together [FA2].

moved = L(a) d + n dv + U(a)(d + dv)
peak  = a'd + a'(dv+3)w + a'b'w + b'(d + dv)
"""

from attenio.planning.costs.attenio import moved_words, resident_words
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["TILES", "moved_words", "peak_words"]

TILES = ("query_tile", "key_tile")


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the largest problem."""
    a, b = tiles["query_tile"], tiles["key_tile"]
    buffer = problems.key_words
    return max(resident_words(problems, min(a, rows), min(b, keys), buffer) for rows, keys in problems.shapes)
