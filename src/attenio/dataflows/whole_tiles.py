"""Tiles of rows all of whose scores stay: the first one may have more rows where these begin with one key.

Of a window's first rows, or last ones, each needs one key more than the one before: a tile of them has fewer scores
than others, and room for more rows. It begins at that end. It is taken if tiles read fewer keys then.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns import Band
from attenio.memory.indices import cuts


class WholeTile(NamedTuple):
    """Rows of a tile, how many a column of it has room for, and for how many scores there is room."""

    rows: slice
    height: int
    scores: int


def whole_tiles(band: Band, tile: int, per_score: int, per_row: int) -> list[WholeTile]:
    """The tiles of a band; a score and a row of a column take so many words."""
    needed = [int(band.end_key(row)) - int(band.first_key(row)) for row in range(band.rows)]
    longest, back = max(1, *needed), needed[0] != 1
    if back:
        needed.reverse()
    first = tile
    if needed[0] == 1 and longest == band.left + band.right + 1:
        first = _rows_that_fit(longest, tile, per_score, per_row)
        first = tile if first < longest or first >= band.rows else first
    alike = [WholeTile(span, tile, tile * longest) for span in cuts(band.rows, tile)]
    if first == tile:
        return alike
    later = (slice(first + each.start, first + each.stop) for each in cuts(band.rows - first, tile))
    found = [WholeTile(slice(0, first), first, sum(needed[:first]))]
    found += [WholeTile(span, tile, tile * longest) for span in later]
    if back:
        found = [each._replace(rows=slice(band.rows - each.rows.stop, band.rows - each.rows.start)) for each in found]
    return min(alike, found, key=lambda tiles: sum(len(_needed(band, each.rows)) for each in tiles))


def _needed(band: Band, rows: slice) -> NDArray[np.intp]:
    return band.needed_keys(rows.start, rows.stop)


def _rows_that_fit(longest: int, tile: int, per_score: int, per_row: int) -> int:
    """The first rows that take no more than a tile of the longest ones, if each needs one key more until then."""
    words, count = tile * (longest * per_score + per_row), 0
    while (words := words - min(count + 1, longest) * per_score - per_row) >= 0:
        count += 1
    return count
