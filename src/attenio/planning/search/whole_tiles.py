"""The best tile of rows all of whose scores stay, where the first tile may be taller (see ``masks.patterns``).

A tile of a rows has room for l scores of each, the most that one needs, of b words each, and for c words of a row. A
key that it reads serves a rows at most. A taller first tile reads l keys or more and has a (l + c/b) scores at most. So
a times the keys that are read, and a c/b more, are no fewer than all scores.
"""

import numpy as np

from attenio.masks.patterns import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, larger, where
from attenio.masks.patterns.whole_rows import more_rows, whole_rows_read
from attenio.planning.search.row_tiles import RowWords, best_row_tile
from attenio.planning.words.form import WholeRows

_LARGEST_INT64_SUM = 2**62


def best_whole_tile(
    form: RowWords, phase: WholeRows, band: Band, most: int, limit: int | None = None
) -> tuple[int, int]:
    """Fewest words over all tiles up to ``most``, and one that has them; beyond the limit, any."""
    weights = int(phase.per_score), int(phase.per_row)
    least = int(first_taller(band, *weights))
    if least == 0 or least > most:
        return best_row_tile(form, most, limit)
    exact = np.int64 if form.most_words < _LARGEST_INT64_SUM else object
    tiles = np.arange(least, most + 1, dtype=np.int64)
    read, live = whole_rows_read(band, tiles, *weights)
    words = form.loads * np.asarray(read).astype(exact) + form.live * np.asarray(live).astype(exact)
    first = int(np.argmin(words))
    best = int(words[first]), int(tiles[first])
    return min(best, best_row_tile(form, least - 1)) if least > 1 else best


def first_taller(band: Band, per_score: Counts, per_row: Counts) -> Counts:
    """The smallest tile for which the first one is taller; 0 if there is none."""
    longest = band.left + band.right + 1
    more = longest * (longest - 1) * per_score // (2 * (longest * per_score + per_row))
    least = larger(longest - more, 1)
    return where(more_rows(band, least, per_score, per_row) > 0, least, 0)


def least_read(band: Band, phase: WholeRows, most: Counts) -> Counts:
    """Keys that no tiles up to so many rows read fewer of, whatever the first one."""
    return larger(band.touched_keys, ceil_div(band.scores, larger(most, 1)) - ceil_div(phase.per_row, phase.per_score))
