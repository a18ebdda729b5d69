"""Two passes: projections are stored, a forward pass leaves E and statistics, a second one makes G.

moved = projections + [2 n d w + 2 n w + 2 d U(a)] + [4 n d w + 2 n w + 2 d U(p)] + updates
peak  = max(projections, 2 a'd w + 3 a'w + a'b'w + b'd, 3 p'd w + 4 p'w + p'c'w + 2 c'd, updates)
"""

from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems
from attenio.weight_gradient.costs.products import projection_peak, projection_words, update_peak, update_words

TILES = (
    "projection_columns",
    "query_tile",
    "key_tile",
    "gradient_rows",
    "gradient_keys",
    "weight_rows",
    "weight_columns",
)


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored."""
    n, d, w = problems.rows, problems.d, problems.intermediate_words
    keys = problems.key_loads(tiles["query_tile"]) + problems.key_loads(tiles["gradient_rows"])
    products = projection_words(problems, tiles["projection_columns"]) + update_words(
        problems, tiles["weight_rows"], tiles["weight_columns"]
    )
    return int(products + 6 * n * d * w + 4 * n * w + 2 * d * keys)


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the largest phase."""
    n, m, d, w = problems.rows, problems.most_keys, problems.d, problems.intermediate_words
    a, b = min(tiles["query_tile"], n), min(tiles["key_tile"], m)
    p, c = min(tiles["gradient_rows"], n), min(tiles["gradient_keys"], m)
    return max(
        projection_peak(problems, tiles["projection_columns"]),
        2 * a * d * w + 3 * a * w + a * b * w + b * d,
        3 * p * d * w + 4 * p * w + p * c * w + 2 * c * d,
        update_peak(problems, tiles["weight_rows"], tiles["weight_columns"]),
    )
