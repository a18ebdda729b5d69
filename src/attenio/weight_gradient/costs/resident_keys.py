"""Resident keys: keys, values, weights and their gradients stay; rows pass by once.

moved = 2 n d + 2 m d + 4 d^2
peak  = 2 m d + 2 d^2 + 2 d^2 w + 2 a'd + 5 a'd w + 4 a'w + a'b'w
"""

from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

TILES = ("query_tile", "key_tile")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored: the compulsory ones."""
    d = problems.d
    return int(2 * (problems.rows + problems.touched_keys) * d + 4 * d * d)


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once."""
    m, d, w = problems.most_keys, problems.d, problems.intermediate_words
    a, b = min(tiles["query_tile"], problems.rows), min(tiles["key_tile"], m)
    return 2 * m * d + 2 * d * d * (1 + w) + 2 * a * d + 5 * a * d * w + 4 * a * w + a * b * w
