"""FlashAttention-1: keys and values stay, queries and partial outputs of the whole group pass [FA].

moved = F(d + dv) + g (V(b) d + 2 (V(b) - R)(dv+2)w + n dv)      F touched keys, R touched rows
peak  = b'(d + dv) + a'd + a'(dv+3)w + a'b'w
"""

from attenio.planning.costs.flash_attention_2 import peak_words
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["TILES", "moved_words", "peak_words", "visit_words"]

TILES = ("query_tile", "key_tile")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, the heads of a group together."""
    visits = int(problems.row_visits(tiles["key_tile"]))
    return problems.runs * (fixed_words(problems) + problems.group * visits * visit_words(problems))


def visit_words(problems: Problems) -> int:
    """Words that every visit of a row costs: its query, and its output and statistics in and out."""
    return problems.d + 2 * (problems.value_dim + 2) * problems.intermediate_words


def fixed_words(problems: Problems) -> int:
    """Words of one run that no tile changes; negative, as a row's first visit loads and its last stores no state."""
    saved = problems.touched_rows * 2 * (problems.value_dim + 2) * problems.intermediate_words
    own = problems.rows * problems.value_dim - saved
    return problems.touched_keys * problems.key_words + problems.group * own
