"""AttenIO: queries and outputs stay, keys and values stream through one buffer [AttenIO alg. 1].

moved = L(a) d + n dv + U(a)(d + dv)
peak  = a'd + a'(dv+3)w + a'b'w + b'max(d, dv)

Values that are part of their keys are there when the keys are: U(a) d in place of U(a)(d + dv).
"""

from attenio.patterns.sums import ceil_div
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["TILES", "moved_words", "peak_words", "resident_words"]

TILES = ("query_tile", "key_tile")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, every head by itself."""
    a = tiles["query_tile"]
    return problems.group * problems.runs * query_stationary_words(problems, a, heads=1, head_tiles=1)


def query_stationary_words(problems: Problems, query_tile: int, *, heads: int, head_tiles: int) -> int:
    """Words of one run when a tile of queries stays while the keys it needs pass, once for every tile of heads."""
    own = problems.live_rows(query_tile) * problems.d + problems.rows * problems.value_dim
    return int(heads * own + head_tiles * problems.key_loads(query_tile) * problems.key_words)


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the largest problem."""
    a, b = tiles["query_tile"], tiles["key_tile"]
    buffer = max(problems.d, problems.value_dim)
    return max(resident_words(problems, min(a, rows), min(b, keys), buffer) for rows, keys in problems.shapes)


def resident_words(problems: Problems, rows: int, keys: int, key_words: int) -> int:
    """Words that a tile of rows, their sums and a tile of keys take, with ``key_words`` words for a key."""
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    return rows * d + rows * (dv + 3) * w + rows * keys * w + keys * key_words


def head_tiles(problems: Problems, head_tile: int) -> int:
    """Tiles that the heads of a group are cut into."""
    return int(ceil_div(problems.group, head_tile))
