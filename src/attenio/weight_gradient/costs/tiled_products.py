"""Tiled products: scores S and their gradients dS are written and read, every product has a tile of its own.

projections (rows stay) and updates as in ``products``, and in between, moved and held:
S    T(a,b) d w + U(a) d + Z w + 2 n w                 a'b'w + 3 a'w + 1
E    Z ceil(d/c) w + U(p) d + 2 n w + n d w            p'c'w + 3 p'w + 1
dS   T(a,b) d w + U(a) d + 2 Z w + 2 n w + 2 n d w     a'b'w + 4 a'w + w + 1
G    Z ceil(d/c) w + U(p) d + n d w                    p'c'w + p'w + 1
"""

from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems
from attenio.weight_gradient.costs.products import (
    tiled_projection_peak,
    tiled_projection_words,
    update_peak,
    update_words,
)

TILES = (
    "projection_rows",
    "projection_columns",
    "score_rows",
    "score_keys",
    "output_rows",
    "output_columns",
    "gradient_rows",
    "gradient_keys",
    "query_rows",
    "query_columns",
    "weight_rows",
    "weight_columns",
)


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored."""
    p, c, a, b, e_rows, e_columns, s_rows, s_keys, g_rows, g_columns, u, v = (tiles[name] for name in TILES)
    d, w, Z = problems.d, problems.intermediate_words, problems.scores
    met = problems.tile_rows(a, b) + problems.tile_rows(s_rows, s_keys)
    loads = sum(problems.key_loads(rows) for rows in (a, e_rows, s_rows, g_rows))
    reads = -(-d // e_columns) + -(-d // g_columns)
    products = tiled_projection_words(problems, p, c) + update_words(problems, u, v)
    return int(products + met * d * w + loads * d + Z * reads * w + fixed_words(problems))


def fixed_words(problems: Problems) -> int:
    """Words of the four phases over scores that no tile changes."""
    n, d, w = problems.rows, problems.d, problems.intermediate_words
    return 3 * problems.scores * w + 6 * n * w + 4 * n * d * w


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the largest phase."""
    p, c, a, b, e_rows, e_columns, s_rows, s_keys, g_rows, g_columns, u, v = (tiles[name] for name in TILES)
    n, m, d, w = problems.rows, problems.most_keys, problems.d, problems.intermediate_words
    a, e_rows, s_rows, g_rows = (min(rows, n) for rows in (a, e_rows, s_rows, g_rows))
    return max(
        tiled_projection_peak(problems, p, c),
        a * min(b, m) * w + 3 * a * w + 1,
        e_rows * min(e_columns, d) * w + 3 * e_rows * w + 1,
        s_rows * min(s_keys, m) * w + 4 * s_rows * w + w + 1,
        g_rows * min(g_columns, d) * w + g_rows * w + 1,
        update_peak(problems, u, v),
    )
