"""Fused values for small fast memories: two score tiles stay, so that probabilities are used and never written.

D, dK, dQ   as tiled products
dV and dS   moved g (T(a,b)(d + dv) + U(a)(d + dv) + 2L(a)w + Zw) + 2w dv (g U(a) - F) + m dv
            peak  2a'b'w + a' + 1 + 2a'w + w
"""

from attenio.planning.costs.backward.tiled_products import (
    delta_words,
    key_gradient_words,
    product_peak_words,
    query_gradient_words,
)
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["TILES", "moved_words", "peak_words"]

TILES = ("score_rows", "score_keys", "key_keys", "key_columns", "query_rows", "query_columns")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, the heads of a group together."""
    a, b = tiles["score_rows"], tiles["score_keys"]
    d, dv, w, group = problems.d, problems.value_dim, problems.intermediate_words, problems.group
    loads = int(problems.key_loads(a))
    met = (int(problems.tile_rows(a, b)) + loads) * (d + dv)
    scores = met + 2 * int(problems.live_rows(a)) * w + problems.scores * w
    values = 2 * w * dv * (group * loads - problems.touched_keys) + problems.keys * dv
    rest = delta_words(problems) + key_gradient_words(problems, tiles) + query_gradient_words(problems, tiles)
    return problems.runs * (group * scores + values + rest)


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the largest phase of the largest problem."""
    a, b = tiles["score_rows"], tiles["score_keys"]
    w = problems.intermediate_words
    scores = max(min(a, rows) * (2 * min(b, keys) * w + 1 + 2 * w) + 1 + w for rows, keys in problems.shapes)
    return max(scores, product_peak_words(problems, tiles))
