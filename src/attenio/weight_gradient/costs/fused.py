"""Fused: every tile of rows makes its projections, passes over the keys once, and adds to both weight gradients.

moved = 4 n d + 2 d^2 t + 4 d^2 w (t - 1) + 2 d^2 + 2 d U(a),    t = ceil(n/a)
peak  = 5 a'd w + 4 a'w + a'b'w + 2 b'd
"""

from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

TILES = ("query_tile", "key_tile")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored."""
    a, n, d, w = tiles["query_tile"], problems.rows, problems.d, problems.intermediate_words
    visits = -(-n // a)
    weights = 2 * d * d * visits + 4 * d * d * w * (visits - 1) + 2 * d * d
    return int(4 * n * d + weights + 2 * d * problems.key_loads(a))


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once."""
    return sweep_peak(problems, tiles)


def sweep_peak(problems: Problems, tiles: Tiles) -> int:
    """Two projections, three sums and four statistics of a tile of rows, scores, and keys with their values."""
    d, w = problems.d, problems.intermediate_words
    a, b = min(tiles["query_tile"], problems.rows), min(tiles["key_tile"], problems.most_keys)
    return 5 * a * d * w + 4 * a * w + a * b * w + 2 * b * d
