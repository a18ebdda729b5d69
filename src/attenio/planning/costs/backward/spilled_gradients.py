"""Spilled gradients: keys and values stay, rows pass once; dQ is made afterwards, from score gradients that travelled.

    moved = (F + m)(d + dv) + g (V(b)(d + dv + 2w) + R dv + Zw + Z ceil(d/c)w + U(p)d + n d)
    peak  = max(b'(d + dv)(1 + w) + a'(d + dv) + 3a'w + a'b'w + 1,  p'c'w + p'w + 1)

With ``key_keys`` q and ``key_columns`` e, dK is made in the same way and is not resident:

    moved   g (Z ceil(d/e)w + V(q)d) more
    peak    b'dw less in the first, and q'e'w + q'w + 1
"""

from attenio.patterns.sums import ceil_div
from attenio.planning.costs.backward.two_pass import visit_words, visiting_words
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["LEAN_TILES", "TILES", "fixed_words", "moved_words", "peak_words", "resident_key_words"]

TILES = ("query_tile", "key_tile", "query_rows", "query_columns")
LEAN_TILES = ("query_tile", "key_tile", "key_keys", "key_columns", "query_rows", "query_columns")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, the heads of a group together."""
    d, scores = problems.d, problems.scores * problems.intermediate_words
    rows = problems.row_visits(tiles["key_tile"]) * visit_words(problems)
    queries = scores * ceil_div(d, tiles["query_columns"]) + problems.key_loads(tiles["query_rows"]) * d
    keys = 0
    if "key_keys" in tiles:
        keys = scores * ceil_div(d, tiles["key_columns"]) + problems.row_visits(tiles["key_keys"]) * d
    return problems.runs * (fixed_words(problems) + problems.group * int(rows + queries + keys))


def fixed_words(problems: Problems) -> int:
    """Words of one run that no tile changes: K, V and O read once, score gradients and all gradients written once."""
    d, dv = problems.d, problems.value_dim
    own = problems.touched_rows * dv + problems.scores * problems.intermediate_words + problems.rows * d
    return (problems.touched_keys + problems.keys) * (d + dv) + problems.group * own


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the largest phase of the largest problem."""
    a, b, w = tiles["query_tile"], tiles["key_tile"], problems.intermediate_words
    per_row, per_key = visiting_words(problems), resident_key_words(problems, lean="key_keys" in tiles)
    peak = 1 + max(
        min(a, rows) * (per_row + min(b, keys) * w) + min(b, keys) * per_key for rows, keys in problems.shapes
    )
    products = [("query_rows", "query_columns", problems.most_rows)]
    if "key_keys" in tiles:
        products.append(("key_keys", "key_columns", problems.most_keys))
    each = [min(tiles[p], most) * (min(tiles[c], problems.d) + 1) * w + 1 for p, c, most in products]
    return max(peak, *each)


def resident_key_words(problems: Problems, *, lean: bool) -> int:
    """Words of a key that stays: K, V, dV, and dK unless it is made afterwards."""
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    return d + dv + (dv if lean else d + dv) * w
