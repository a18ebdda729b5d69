"""Keys that a band reads beside slots that keep some of them, and floors under these; for one band or arrays of bands.

With room for s(a) keys beside a rows, a tile reads what it needs but for the keys that its slots have kept, so that a
band reads

    touched + sum over boundaries x = a, 2a, ... of max(0, alive(x) - s(a))

keys (see ``Band``). Samples at a distance D of a function that rises, stays and falls with slopes of one sum up to at
least

    (integral)/D - (both ends)/2 - D/8 for each end of the middle,

and for a real s(D) = S - rho*D that is A/D + B + C*D or more, A and -C not negative, which grows with the number of
tiles. For all tiles from a to b,

    alive(i*x) - s(x) >= min(up + a*i, peak, down - b*i) - s(a).
"""

from typing import NamedTuple

import numpy as np

from attenio.masks.patterns import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, larger, smaller, sum_clipped, sum_clipped_of_integers, where
from attenio.planning.words.form import KeptTile

Line = tuple[Counts, Counts, Counts]
Lines = tuple[Line, Line]
# Floors in floating point are off by less than this factor.
ROUNDED = 1 - 1e-9


def _positive(value: Counts) -> Counts:
    """The value where it is above zero."""
    return np.maximum(value, 0) if type(value) is np.ndarray else max(value, 0 * value)


class Kept(NamedTuple):
    """A band, or arrays of bands, with the words of a live row and of a key read, and the room for rows and slots."""

    band: Band
    live: Counts
    loads: Counts
    words: Counts
    per_row: Counts
    per_slot: Counts

    def slots(self, tile: Counts) -> Counts:
        """Slots beside a tile: no more than there are keys."""
        return smaller((self.words - tile * self.per_row) // self.per_slot, self.band.keys)

    def moved(self, tile: Counts) -> Counts:
        """The words of a tile; of a band that is not dense."""
        read = self.loads * (self.band.touched_keys + self._again(tile, tile, self.slots(tile)))
        return read if type(self.live) is int and not self.live else read + self.live * self.band.live_rows(tile)

    def floor(self, least: Counts, most: Counts) -> Counts:
        """Words that no tile of a range goes below."""
        return self.compulsory + self.loads * larger(self._again(least, most, self.slots(least)), 0)

    def _again(self, least: Counts, most: Counts, slots: Counts) -> Counts:
        """Keys read again with so many slots: by one tile, or at least by any from ``least`` to ``most``."""
        band, peak = self.band, smaller(self.band.keys, self.band.left + self.band.right)
        first, last = band.shift + band.right - peak, band.shift - band.left - band.keys + peak
        if type(slots) is int:
            if 1 < slots >= peak:
                return 0
            boundaries, beyond = -(-band.rows // most) - 1, peak - (min(slots, peak) if slots > 1 else 0)
            again: int = boundaries * beyond
            if first + least < 0:  # otherwise as many are alive at the first boundary already
                again = sum_clipped_of_integers(1, boundaries, least, first + beyond, beyond)
            if last + boundaries * most > 0:  # otherwise they are at the last one still
                again -= sum_clipped_of_integers(1, boundaries, most, last, beyond)
            return again
        boundaries, beyond = ceil_div(band.rows, most) - 1, peak - smaller(where(slots > 1, slots, 0), peak)
        level = (first + least >= 0).all()  # as under causal masks and their windows
        rising = boundaries * beyond if level else sum_clipped(1, boundaries, least, first + beyond, beyond)
        return rising - sum_clipped(1, boundaries, most, last, beyond)

    def read_again(self, tile: Counts) -> Counts:
        """Keys that a tile reads again, if they rise."""
        band, slots = self.band, self.slots(tile)
        peak = smaller(band.keys, band.left + band.right)
        first = smaller(band.shift + band.right, peak)
        if type(slots) is int:
            over = peak - min(slots if slots > 1 or band.is_dense else 0, peak)
            boundaries = -(-band.rows // tile) - 1
            if not over or first == peak:
                return boundaries * over
            # the first boundary over which not all keys are kept, and the first at the peak
            begin, level = (max(1, (peak - over - first) // tile + 1), -((first - peak) // tile))
            rising = min(boundaries, level - 1)
            few = max(rising - begin + 1, 0)
            some = tile * ((begin + rising) * few // 2) + (first - peak + over) * few
            return some + over * max(boundaries - max(level, begin) + 1, 0)
        keeping = smaller(where((slots > 1) | band.is_dense, slots, 0), peak)
        return sum_clipped(1, ceil_div(band.rows, tile) - 1, tile, first - keeping, peak - keeping)

    def floor_lines(self, most: Counts) -> Lines:
        """Triples A, B, C: tiles of D <= ``most`` rows read A/D + B + C*D keys or more again. C is not positive.

        With slots as there would be without rounding, and with those beside a single row. Of bands without idle rows.
        """
        band, lines = self.band, list[Line]()
        peak, end = band.most_alive
        for slots, per_row in ((self.words / self.per_slot, self.per_row / self.per_slot), (self.slots(1) * 1.0, 0.0)):
            over = peak - slots
            a, b, c = over * band.rows, per_row * band.rows, 0.0
            for alive in (band.alive_first, end):
                rise, beyond = peak - alive, alive - slots
                always = (beyond > 0) | (rise == 0)  # keys are read again at this end, whatever the tile
                above, below = beyond * always, _positive(beyond + per_row * most) * (1 - always)
                a = a + over * over / 2 - over * rise - above * above / 2
                b = b + per_row * (over - rise) - above * (per_row + 0.5) - below * below / (2.0 * most) - below / 2
                bends = (rise > 0) & (rise < band.rows)
                c = c + per_row * per_row / 2 - always * per_row * (per_row + 1) / 2 - bends / 8
            some = over + per_row > 0
            lines.append((a * some, b * some, -_positive(-c) * some))
        return lines[0], lines[1]

    def least_again(self, most: Counts) -> Counts:
        """Keys that tiles of up to ``most`` rows read again at least; of bands without idle rows."""
        again = [(a / most + b + c * most) * (a >= 0) for a, b, c in self.floor_lines(most)]
        # a boundary lies within a tile of the one over which the most keys are alive
        slope = self.per_row / self.per_slot - 1
        one = self.band.most_alive[0] - self.words / self.per_slot - _positive(-slope) * most
        return _positive(larger(larger(*again), one * (most < self.band.rows))) * ROUNDED

    def rough_read(self, most: Counts) -> Counts:
        """Keys that tiles of up to so many rows read at least, quickly, where slots do not do everything.

        A key read serves the a rows of a tile, and s slots serve every row once: Z <= a*read + n*s.
        """
        beyond = self.band.scores * self.per_slot - self.band.rows * self.words
        return (beyond / most + self.band.rows * self.per_row) / self.per_slot * (beyond > 0)

    def least_tile(self, words: Counts) -> Counts:
        """No tile below this one moves as few words: as ``rough_read``."""
        band = self.band
        read = (words - self.live * band.touched_rows) // self.loads
        beyond = band.scores * self.per_slot - band.rows * self.words
        spare = read * self.per_slot - band.rows * self.per_row
        least = where(beyond > 0, where(spare > 0, ceil_div(beyond, larger(spare, 1)), band.rows + 1), 1)
        # a boundary lies within a tile of the one over which the most keys are alive
        over = (band.most_alive[0] + band.touched_keys - read) * self.per_slot - self.words
        saved = self.per_slot - self.per_row
        near = where(saved > 0, ceil_div(larger(over, 0), larger(saved, 1)), where(over > 0, band.rows, 1))
        return larger(least, where(band.touched_rows == band.rows, smaller(near, band.rows), 1))

    @property
    def compulsory(self) -> Counts:
        """Words of live rows and of keys read once."""
        return self.live * self.band.touched_rows + self.loads * self.band.touched_keys

    def may_keep_all(self) -> Counts:
        """Whether as many keys as a row needs on average fit beside it."""
        return (self.words - self.per_row) * self.band.rows >= self.band.scores * self.per_slot

    def nothing_twice(self) -> Counts:
        """The largest tile beside which all keys alive at any boundary fit; less than one if there is none."""
        peak = self.band.most_alive_inside
        slots = smaller(larger(peak, smaller(2 * peak, 2)), self.band.keys)
        return (self.words - larger(slots, 1) * self.per_slot) // self.per_row


def rises(band: Band) -> Counts:
    """Whether all rows need a key, and the keys alive never become fewer from one boundary to the next."""
    last = band.shift + band.rows - 1
    return (band.touched_rows == band.rows) & ((last + band.right <= band.keys) | (last <= band.left))


def keeps_more(band: Band, phase: KeptTile, most: Counts, fast_words: Counts) -> Counts:
    """Whether slots keep a key over every boundary, with any tile up to ``most`` rows and never all of them."""
    two = phase.beside + most * phase.per_row + 2 * phase.per_slot <= fast_words
    return two & (most >= 1) & (most < band.rows) & (band.left + band.right > 0) & rises(band)


def worth_trying(lines: Lines, rows_and_count: tuple[Counts, Counts], again: Counts) -> tuple[Counts, Counts]:
    """Up to how many tiles, more than there are, may read so few keys again, and up to how many rows."""
    rows, count = rows_and_count
    last, high = rows, ceil_div(rows, count) - 1
    for a, b, c in lines:
        room = again + 1e-9 * (again + 1) - b - c * rows / count
        if type(rows) is not int:
            last = np.where(a > 0, np.minimum(rows * room / np.where(a > 0, a, 1.0), last), last)
            low = (a < 0) & (room < 0)
            high = np.where(low, np.minimum(a / np.where(low, room, -1.0), high), high)
        elif a > 0:
            last = min(last, int(rows * room / a))
        elif a < 0 and room < 0:
            high = min(high, int(a / room))
    return (last, high) if type(rows) is int else (np.asarray(last).astype(np.int64), np.asarray(high).astype(np.int64))
