"""Tiles of rows of a window all of whose scores stay: the first one is taller where rows begin with one key each.

The first rows of a causal window need few keys, l (l-1) / 2 fewer in all than l each. So the first tile has room for
that many scores in more rows. Where the last rows need few keys instead tiles are counted from the last one.
"""

from attenio.masks.patterns.band import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.rolling import turned
from attenio.masks.patterns.sums import where


def begins_at_the_end(band: Band) -> Counts:
    """Whether the last row needs one key, and each before it one more."""
    return (band.shift + band.right != 0) & (band.keys - band.rows - band.shift + band.left == 0)


def more_rows(band: Band, tile: Counts, per_score: Counts, per_row: Counts) -> Counts:
    """Rows that the first tile has beside ``tile``, for the words of a score and of a row; 0 if there is one tile.

    >>> window = Band(rows=64, keys=64, left=7, right=0, shift=0)
    >>> more_rows(window, 8, 1, 1), more_rows(window.transposed, 8, 1, 1), more_rows(window, 64, 1, 1)
    (3, 3, 0)
    """
    longest = band.left + band.right + 1
    more = longest * (longest - 1) * per_score // (2 * (longest * per_score + per_row))
    alone = (band.shift + band.right == 0) | begins_at_the_end(band)
    several = (tile + more >= longest) & (tile + more < band.rows) & (longest <= band.keys)
    return where(alone & several, more, 0)


def whole_rows_read(band: Band, tile: Counts, per_score: Counts, per_row: Counts) -> tuple[Counts, Counts]:
    """Keys that tiles read, and rows in those that need any; the first tile is taller if fewer keys are read so.

    >>> window = Band(rows=64, keys=64, left=7, right=0, shift=0)
    >>> whole_rows_read(window, 8, 1, 1), window.key_loads(8)
    ((113, 64), 113)
    >>> whole_rows_read(window, 21, 1, 1), window.key_loads(21)
    ((78, 64), 85)
    """
    more, back = more_rows(band, tile, per_score, per_row), begins_at_the_end(band)
    other = turned(band)
    left, right, shift = (
        where((more > 0) & back, getattr(other, name), getattr(band, name)) for name in ("left", "right", "shift")
    )
    # a tile of the rows after these needs all keys that these need
    rest = Band(rows=band.rows - more, keys=band.keys, left=left, right=right, shift=shift + more)
    read, alike = rest.key_loads(tile), band.key_loads(tile)
    fewer = read < alike
    return where(fewer, read, alike), where(fewer, rest.live_rows(tile) + more, band.live_rows(tile))
