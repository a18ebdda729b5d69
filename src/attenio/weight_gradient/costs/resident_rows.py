"""Resident rows: as fused, but the rows of A1 and dO stay until the weight gradients have been updated.

moved = 2 n d + 2 d^2 t + 4 d^2 w (t - 1) + 2 d^2 + 2 d U(a),    t = ceil(n/a)
peak  = 2 a'd + 5 a'd w + 4 a'w + a'b'w + 2 b'd
"""

from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems
from attenio.weight_gradient.costs import fused

TILES = fused.TILES


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored."""
    return fused.moved_words(problems, tiles) - 2 * problems.rows * problems.d


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once."""
    return fused.sweep_peak(problems, tiles) + 2 * min(tiles["query_tile"], problems.rows) * problems.d
