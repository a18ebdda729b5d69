"""One pass: projections are stored, every tile of rows passes over the keys once, weights are updated at the end.

moved = projections + 4 n d w + 2 d U(a) + updates
peak  = max(projections, 5 a'd w + 4 a'w + a'b'w + 2 b'd, updates)
"""

from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems
from attenio.weight_gradient.costs.fused import sweep_peak
from attenio.weight_gradient.costs.products import projection_peak, projection_words, update_peak, update_words

TILES = ("projection_columns", "query_tile", "key_tile", "weight_rows", "weight_columns")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored."""
    n, d, w = problems.rows, problems.d, problems.intermediate_words
    products = projection_words(problems, tiles["projection_columns"]) + update_words(
        problems, tiles["weight_rows"], tiles["weight_columns"]
    )
    return int(products + 4 * n * d * w + 2 * d * problems.key_loads(tiles["query_tile"]))


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the largest phase."""
    return max(
        projection_peak(problems, tiles["projection_columns"]),
        sweep_peak(problems, tiles),
        update_peak(problems, tiles["weight_rows"], tiles["weight_columns"]),
    )
