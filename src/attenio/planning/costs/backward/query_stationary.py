"""Query-stationary: rows and their gradients stay; keys pass, and their partial gradients with them.

moved = g (L(a)(d + 2dv + w) + n d) + g U(a)(d + dv) + 2w (g U(a) - F)(d + dv) + m(d + dv)
peak  = as key-stationary
"""

from attenio.planning.costs.backward.key_stationary import peak_words
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["TILES", "fixed_words", "load_words", "moved_words", "own_words", "peak_words"]

TILES = ("query_tile", "key_tile")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, the heads of a group together."""
    a = tiles["query_tile"]
    each = problems.live_rows(a) * own_words(problems) + problems.key_loads(a) * load_words(problems)
    return problems.runs * (fixed_words(problems) + problems.group * int(each))


def own_words(problems: Problems) -> int:
    """Words that a row of a live tile loads: Q, dO, O and the log-sum-exp."""
    return problems.d + 2 * problems.value_dim + problems.intermediate_words


def load_words(problems: Problems) -> int:
    """Words that every visit of a key costs: K and V, and their partial gradients in and out."""
    return (problems.d + problems.value_dim) * (1 + 2 * problems.intermediate_words)


def fixed_words(problems: Problems) -> int:
    """Words of one run that no tile changes; a key's first visit loads and its last stores no partial gradient."""
    saved = 2 * problems.intermediate_words * problems.touched_keys
    return (problems.keys - saved) * (problems.d + problems.value_dim) + problems.group * problems.rows * problems.d
