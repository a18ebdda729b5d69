"""Split keys: the keys of a tile are cut into runs that are worked on independently and merged afterwards.

moved = ceil(g/h) U(p)(d + dv) + g (T(p,z) d + 2 T(p,z)(dv+2)w + n dv)
peak  = max(as stacked groups, (2dv+4)w)
"""

from attenio.planning.costs import stacked_groups
from attenio.planning.costs.attenio import head_tiles
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["TILES", "moved_words", "partial_words", "peak_words"]

TILES = ("query_tile", "head_tile", "keys_per_split", "key_tile")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, the heads of a group together."""
    p, h, z = tiles["query_tile"], tiles["head_tile"], tiles["keys_per_split"]
    keys = head_tiles(problems, h) * problems.key_loads(p) * problems.key_words
    own = problems.tile_rows(p, z) * partial_words(problems) + problems.rows * problems.value_dim
    return problems.runs * int(keys + problems.group * own)


def partial_words(problems: Problems) -> int:
    """Words that every run costs a row: its query, and its partial output and statistics out and in again."""
    return problems.d + 2 * (problems.value_dim + 2) * problems.intermediate_words


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the largest problem, or by the merge."""
    merge = (2 * problems.value_dim + 4) * problems.intermediate_words
    return max(stacked_groups.peak_words(problems, tiles), merge)
