"""Fused projections: every tile of rows makes its projections and passes over the keys; weights are updated at the end.

moved = 2 n d + 2 d^2 ceil(n/a) + 2 d U(a) + 2 n d w + updates
peak  = max(5 a'd w + 4 a'w + a'b'w + 2 b'd, updates)
"""

from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems
from attenio.weight_gradient.costs.fused import sweep_peak
from attenio.weight_gradient.costs.products import update_peak, update_words

TILES = ("query_tile", "key_tile", "weight_rows", "weight_columns")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored."""
    a, n, d, w = tiles["query_tile"], problems.rows, problems.d, problems.intermediate_words
    sweep = 2 * n * d + 2 * d * d * -(-n // a) + 2 * d * problems.key_loads(a) + 2 * n * d * w
    return int(sweep + update_words(problems, tiles["weight_rows"], tiles["weight_columns"]))


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the larger phase."""
    return max(sweep_peak(problems, tiles), update_peak(problems, tiles["weight_rows"], tiles["weight_columns"]))
