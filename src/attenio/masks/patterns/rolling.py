"""Rows of a band that come and go one by one: how many keys they read, and from which end they come.

A key takes its first turn just before the first row that needs it leaves, and its next ones as many rows later as there
are rows. From its first turn to its second a key may stay in a slot, which keys leave one by one: of several with the
same first row one alone does. So rows come from the last one on where that leaves more keys that may stay.
"""

from attenio.masks.patterns.band import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import larger, smaller, where


def rolling_loads(band: Band, rows_held: Counts, slots: Counts, ring: Counts = 0) -> Counts:
    """Keys read where rows come and go one by one: a key once for every ``rows_held`` of the rows that need it.

    Slots keep keys from their first turn to the second: of every ``rows_held`` keys all, or one less than slots. Where
    the first row needs one key, and each of the next ones one more, the first ``ring`` keys stay until they are done.

    >>> window = Band(rows=64, keys=64, left=7, right=0, shift=0)
    >>> [rolling_loads(each, 4, slots) for slots in (1, 2, 3, 4) for each in (window, window.transposed)]
    [124, 124, 109, 109, 94, 94, 64, 64]
    """
    read = band.transposed.tile_rows(1, rows_held)
    often = larger(*_stay_often(band, rows_held))
    kept = where(smaller(slots, band.keys) >= rows_held, rows_held, smaller(slots, band.keys) - 1)
    begin = where((ring > kept) & begins_one_by_one(band, rows_held), ring, kept)
    after, leave = larger(often - begin, 0), rows_held - kept
    saved = often - after // rows_held * leave - smaller(after % rows_held, leave)
    return read - where(band.left + band.right >= rows_held, saved, 0)


def begins_one_by_one(band: Band, rows_held: Counts) -> Counts:
    """Whether the first row that comes needs one key and each of the next ones one more, for two turns of a long band.

    >>> window = Band(rows=64, keys=64, left=7, right=0, shift=0)
    >>> begins_one_by_one(window, 4), begins_one_by_one(window.transposed, 4), begins_one_by_one(window, 3)
    (True, True, False)
    """
    first, last = _stay_often(band, rows_held)
    ahead = where(last > first, band.keys - band.rows - band.shift + band.left, band.shift + band.right)
    needed = band.left + band.right + 1
    two_turns = (needed > rows_held) & (needed <= 2 * rows_held)
    return (ahead == 0) & two_turns & (smaller(band.rows, band.keys) >= 4 * rows_held)


def met_at_once(band: Band, rows_held: Counts) -> Counts:
    """Keys that take a single turn, where rows come and go one by one: all rows that need one are there at a time.

    >>> window = Band(rows=64, keys=64, left=7, right=0, shift=0)
    >>> met_at_once(window, 4), met_at_once(window, 8)
    (4, 64)
    """
    before, after = band.shift - band.left, band.shift + band.right
    first = larger(smaller(band.keys, rows_held + before) - larger(before, 0), 0)
    last = larger(smaller(band.keys, band.rows + after) - larger(band.rows - rows_held + after, 0), 0)
    every = (band.left + band.right < rows_held) | (band.rows <= rows_held)
    return where(every, band.touched_keys, first + last)


def rolls_from_the_end(band: Band, rows_held: int) -> bool:
    """Whether rows come from the last one on."""
    first, last = _stay_often(band, rows_held)
    return bool(last > first)


def turned(band: Band) -> Band:
    """The same scores with the last row and the last key first."""
    back = band.keys - band.rows - band.shift
    return Band(rows=band.rows, keys=band.keys, left=band.right, right=band.left, shift=back)


def _stay_often(band: Band, rows_held: Counts) -> tuple[Counts, Counts]:
    """Keys that may stay, if rows come from the first one on, and if they come from the last."""
    most = band.rows - rows_held
    end, begin = band.keys - band.shift - band.right, band.rows + band.shift - band.left
    return (
        larger(smaller(most, end) - larger(0, -band.shift - band.right), 0),
        larger(smaller(most, begin) - larger(0, begin - band.keys), 0),
    )
