"""Score-stationary: a tile of scores stays; its queries, keys, values and partial outputs stream past.

moved = T(a,b) d + U(a)(d + dv) + 2w dv (T(a,b) - L(a)) + n dv
peak  = a'b'w + 3a'w + max(a' + 1, a'w + 1)
"""

from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["TILES", "moved_words", "peak_words"]

TILES = ("query_tile", "key_tile")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, every head by itself."""
    a, b = (tiles[name] for name in TILES)
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    met, loads, live = problems.tile_rows(a, b), problems.key_loads(a), problems.live_rows(a)
    words = met * d + loads * (d + dv) + 2 * w * dv * (met - live) + problems.rows * dv
    return problems.group * problems.runs * int(words)


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the largest problem."""
    a, b = (tiles[name] for name in TILES)
    w = problems.intermediate_words
    # Intermediates are never narrower than elements, so a column of partial outputs outweighs one of queries.
    return max(min(a, rows) * (min(b, keys) * w + 3 * w + max(1, w)) + 1 for rows, keys in problems.shapes)
