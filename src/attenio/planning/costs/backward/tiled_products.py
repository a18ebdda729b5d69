"""Tiled products for small fast memories: probabilities and their gradients travel, every product is tiled alone.

D           moved g R(2dv + w)                                         peak w + 2
P           moved g (T(a,b)d + U(a)d + L(a)w + Zw)                     peak a'b'w + a' + 1 + a'w
dS          moved g (T(a,b)dv + U(a)dv + L(a)w + 2Zw)                  peak a'b'w + a' + 1 + a'w + w
dV          moved g (Z ceil(dv/c)w + V(p)dv) + m dv                    peak p'c'w + p'w + 1
dK          moved g (Z ceil(d/c)w + V(p)d) + m d                       peak p'c'w + p'w + 1
dQ          moved g (Z ceil(d/c)w + U(p)d + n d)                       peak p'c'w + p'w + 1

With ``gradient_rows`` and ``gradient_keys`` in place of ``score_rows`` and ``score_keys``, the probabilities have been
saved by the forward pass and are read: there is no second line.
"""

from attenio.patterns.sums import ceil_div
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = [
    "READING_TILES",
    "TILES",
    "delta_words",
    "key_gradient_words",
    "moved_words",
    "peak_words",
    "product_peak_words",
    "query_gradient_words",
]

_PRODUCTS = ("value_keys", "value_columns", "key_keys", "key_columns", "query_rows", "query_columns")
TILES = ("score_rows", "score_keys", *_PRODUCTS)
READING_TILES = ("gradient_rows", "gradient_keys", *_PRODUCTS)


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, the heads of a group together."""
    a, b = _score_tile(tiles)
    d, dv, w, scores = problems.d, problems.value_dim, problems.intermediate_words, problems.scores
    met, live = problems.tile_rows(a, b) + problems.key_loads(a), problems.live_rows(a)
    gradients = met * dv + live * w + 2 * scores * w
    probabilities = 0 if "gradient_rows" in tiles else met * d + live * w + scores * w
    visits = int(problems.row_visits(tiles["value_keys"]))
    values = problems.group * _product_words(problems, dv, tiles["value_columns"], visits) + problems.keys * dv
    return problems.runs * (
        delta_words(problems)
        + problems.group * int(probabilities + gradients)
        + values
        + key_gradient_words(problems, tiles)
        + query_gradient_words(problems, tiles)
    )


def _score_tile(tiles: Tiles) -> tuple[int, int]:
    names = READING_TILES if "gradient_rows" in tiles else TILES
    return tiles[names[0]], tiles[names[1]]


def delta_words(problems: Problems) -> int:
    """Words of one run for D: dO and O in, D out."""
    return problems.group * problems.touched_rows * (2 * problems.value_dim + problems.intermediate_words)


def key_gradient_words(problems: Problems, tiles: Tiles) -> int:
    """Words of one run for dK."""
    visits = int(problems.row_visits(tiles["key_keys"]))
    product = _product_words(problems, problems.d, tiles["key_columns"], visits)
    return problems.group * product + problems.keys * problems.d


def query_gradient_words(problems: Problems, tiles: Tiles) -> int:
    """Words of one run for dQ."""
    loads = int(problems.key_loads(tiles["query_rows"]))
    product = _product_words(problems, problems.d, tiles["query_columns"], loads)
    return problems.group * (product + problems.rows * problems.d)


def _product_words(problems: Problems, width: int, columns: int, loads: int) -> int:
    """Words that one head loads for a product: scores once for every tile of columns, and rows of the other factor."""
    return problems.scores * problems.intermediate_words * int(ceil_div(width, columns)) + loads * width


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the largest phase of the largest problem."""
    a, b = _score_tile(tiles)
    w = problems.intermediate_words
    gradients = max(min(a, rows) * (min(b, keys) * w + 1 + w) + 1 + w for rows, keys in problems.shapes)
    most_keys, dv = problems.most_keys, problems.value_dim
    values = min(tiles["value_keys"], most_keys) * (min(tiles["value_columns"], dv) + 1) * w + 1
    return max(gradients, values, product_peak_words(problems, tiles))


def product_peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once for D, dK or dQ, whichever is most."""
    w, d = problems.intermediate_words, problems.d
    keys = min(tiles["key_keys"], problems.most_keys) * (min(tiles["key_columns"], d) + 1) * w + 1
    queries = min(tiles["query_rows"], problems.most_rows) * (min(tiles["query_columns"], d) + 1) * w + 1
    return max(w + 2, keys, queries)
