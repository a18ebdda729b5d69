"""Standard attention: three operators one after the other, blind to the mask; products tiled as in [COSMA].

scores    loads n d ceil(m/b) + m d ceil(n/a), stores nm w             peak a'b'w + a' + 1
softmax   loads n (m + (m - r')) w, stores nm w                        peak (r' + 3) w
outputs   loads nm w ceil(dv/c) + m dv ceil(n/p), stores n dv          peak p'c'w + p'w + 1
"""

from attenio.patterns.sums import ceil_div
from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["TILES", "moved_words", "peak_words"]

TILES = ("score_rows", "score_keys", "resident_keys", "output_rows", "output_columns")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, every head by itself."""
    every = problems.unmasked
    a, b, r, p, c = (tiles[name] for name in TILES)
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    scores = (every.tile_rows(a, b) + every.key_loads(a)) * d + every.scores * w
    softmax = (2 * every.scores + every.scores_beyond(r)) * w
    outputs = every.scores * w * ceil_div(dv, c) + every.key_loads(p) * dv + every.rows * dv
    return problems.group * problems.runs * int(scores + softmax + outputs)


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the largest operator of the largest problem."""
    a, b, r, p, c = (tiles[name] for name in TILES)
    w, columns = problems.intermediate_words, min(c, problems.value_dim)
    return max(
        max(
            min(a, rows) * min(b, keys) * w + min(a, rows) + 1,
            (min(r, keys) + 3) * w,
            min(p, rows) * columns * w + min(p, rows) * w + 1,
        )
        for rows, keys in problems.shapes
    )
