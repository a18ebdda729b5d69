"""Rank-one tiling: the two phases of square tiling, each with one resident tile that rank-one updates stream into.

moved = (T(a,b) + U(a)) d + Z w + 2 n w + Z ceil(dv/c) w + U(p) dv + n dv
peak  = max(a'b'w + a' + 1 + a'w,  p'c'w + 3p'w + 1)
"""

from attenio.planning.costs.square_tiling import written_scores_words
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["TILES", "moved_words", "peak_words"]

TILES = ("score_rows", "score_keys", "output_rows", "output_columns")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, every head by itself."""
    a, b, p, c = (tiles[name] for name in TILES)
    scores = (problems.tile_rows(a, b) + problems.key_loads(a)) * problems.d
    outputs = problems.key_loads(p) * problems.value_dim
    return problems.group * problems.runs * int(scores + outputs + written_scores_words(problems, c))


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the larger phase of the largest problem."""
    a, b, p, c = (tiles[name] for name in TILES)
    w, columns = problems.intermediate_words, min(c, problems.value_dim)
    return max(
        max(
            min(a, rows) * min(b, keys) * w + min(a, rows) + 1 + min(a, rows) * w,
            min(p, rows) * columns * w + 3 * min(p, rows) * w + 1,
        )
        for rows, keys in problems.shapes
    )
