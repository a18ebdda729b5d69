"""Two passes: one for the gradient of queries, one for those of keys and values; nothing partial travels.

moved = g (L(p)(d + 2dv + 2w) + n d) + ceil(g/h) U(p)(d + dv)  +  F(d + dv) + g V(c)(d + dv + 2w) + m(d + dv)
peak  = max(h'p'(d + dv) + h'p'dw + 3h'p'w + h'p'b'w + b'(d + dv) + 1,
            c'(d + dv)(1 + w) + r'(d + dv) + 3r'w + r'c'w)
"""

from attenio.planning.costs.attenio import head_tiles
from attenio.planning.costs.backward.key_stationary import passing_words, stationary_words
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["TILES", "fixed_words", "moved_words", "own_words", "peak_words", "visit_words", "visiting_words"]

TILES = ("query_tile", "head_tile", "key_tile", "stationary_keys", "passing_queries")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, the heads of a group together."""
    p, c, both = tiles["query_tile"], tiles["stationary_keys"], problems.d + problems.value_dim
    keys = head_tiles(problems, tiles["head_tile"]) * problems.key_loads(p) * both
    rows = problems.live_rows(p) * own_words(problems) + problems.row_visits(c) * visit_words(problems)
    return problems.runs * (fixed_words(problems) + int(keys + problems.group * rows))


def own_words(problems: Problems) -> int:
    """Words of a row in a live tile of the first pass beside its dQ: Q, dO, O and the log-sum-exp in, D out."""
    return problems.d + 2 * problems.value_dim + 2 * problems.intermediate_words


def visit_words(problems: Problems) -> int:
    """Words that every visit of a row costs in the second pass: Q, dO, the log-sum-exp and D."""
    return problems.d + problems.value_dim + 2 * problems.intermediate_words


def fixed_words(problems: Problems) -> int:
    """Words of one run that no tile changes: K and V of the second pass, and all gradients."""
    both = problems.d + problems.value_dim
    return (problems.touched_keys + problems.keys) * both + problems.group * problems.rows * problems.d


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the larger pass of the largest problem."""
    p, h, b, c, r = (tiles[name] for name in TILES)
    w, both, heads = problems.intermediate_words, problems.d + problems.value_dim, min(h, problems.group)
    most = 0
    for rows, keys in problems.shapes:
        height, width = heads * min(p, rows), min(b, keys)
        first = height * (passing_words(problems) + width * w) + width * both + 1
        height, width = min(r, rows), min(c, keys)
        second = height * (visiting_words(problems) + width * w) + width * stationary_words(problems)
        most = max(most, first, second)
    return most


def visiting_words(problems: Problems) -> int:
    """Words of a row of the second pass beside its scores: Q, dO, the log-sum-exp, D and one score's gradient."""
    return problems.d + problems.value_dim + 3 * problems.intermediate_words
