"""FLAT: complete rows of scores on chip [FLAT].

    moved = L(a) d + n dv + U(a)(d + dv)
    peak  = a'(d + m w + dv w) + max(d, dv, 2w)

With ``resident_keys``, rows that do not fit: the first r scores of a row stay, the others are stored and loaded back.

    moved = R d + n dv + Z(d + dv) + 2w X(r)
    peak  = d + dv w + r'w + max(d, dv) + 3w
"""

from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems

__all__ = ["SPILLING_TILES", "TILES", "moved_words", "peak_words"]

TILES = ("query_tile",)
SPILLING_TILES = ("query_tile", "resident_keys")


def moved_words(problems: Problems, tiles: Tiles) -> int:
    """Words loaded and stored, every head by itself."""
    d, dv = problems.d, problems.value_dim
    if "resident_keys" not in tiles:
        a = tiles["query_tile"]
        whole = problems.live_rows(a) * d + problems.rows * dv + problems.key_loads(a) * (d + dv)
        return problems.group * problems.runs * int(whole)
    spilled = 2 * problems.intermediate_words * problems.scores_beyond(tiles["resident_keys"])
    own = problems.touched_rows * d + problems.rows * dv + problems.scores * (d + dv)
    return problems.group * problems.runs * int(own + spilled)


def peak_words(problems: Problems, tiles: Tiles) -> int:
    """Words held at once in the largest problem."""
    d, dv, w = problems.d, problems.value_dim, problems.intermediate_words
    if "resident_keys" in tiles:
        kept = min(tiles["resident_keys"], problems.most_keys)
        return d + dv * w + kept * w + max(d, dv) + 3 * w
    rows_words = max(min(tiles["query_tile"], rows) * (d + keys * w + dv * w) for rows, keys in problems.shapes)
    return rows_words + max(d, dv, 2 * w)
