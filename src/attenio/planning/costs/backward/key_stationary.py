"""Key-stationary: keys, values and their gradients stay; rows pass, and their partial gradients with them [FA].

moved = F(d + dv) + m(d + dv) + g (V(b)(d + dv + 2w + 2dw) - 2Rdw + R dv + n d)
peak  = b'(d + dv)(1 + w) + a'(d + dv) + a'dw + 3a'w + a'b'w + 1
"""

from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["TILES", "fixed_words", "moved_words", "passing_words", "peak_words", "stationary_words", "visit_words"]

TILES = ("query_tile", "key_tile")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, the heads of a group together."""
    visits = int(problems.row_visits(tiles["key_tile"]))
    return problems.runs * (fixed_words(problems) + problems.group * visits * visit_words(problems))


def visit_words(problems: Problems) -> int:
    """Words that every visit of a row costs: Q, dO, the log-sum-exp, D in or out, and the partial dQ in and out."""
    w = problems.intermediate_words
    return problems.d + problems.value_dim + 2 * w + 2 * problems.d * w


def fixed_words(problems: Problems) -> int:
    """Words of one run that no tile changes; a row's first visit loads and its last stores no partial dQ."""
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    own = problems.touched_rows * (dv - 2 * d * w) + problems.rows * d
    return (problems.touched_keys + problems.keys) * (d + dv) + problems.group * own


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the largest problem."""
    a, b = tiles["query_tile"], tiles["key_tile"]
    per_row, per_key, w = passing_words(problems), stationary_words(problems), problems.intermediate_words
    return 1 + max(
        min(a, rows) * (per_row + min(b, keys) * w) + min(b, keys) * per_key for rows, keys in problems.shapes
    )


def passing_words(problems: Problems) -> int:
    """Words of a row beside its scores: Q, dO, dQ, the log-sum-exp, D and one score's gradient."""
    return problems.d + problems.value_dim + (problems.d + 3) * problems.intermediate_words


def stationary_words(problems: Problems) -> int:
    """Words of a key: K, V and their gradients."""
    return (problems.d + problems.value_dim) * (1 + problems.intermediate_words)
