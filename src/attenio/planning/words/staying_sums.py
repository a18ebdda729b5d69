"""Tiles stay while the others pass, and partial sums of some that pass stay too: words and room.

Everything works on integers and on arrays of many cases.
"""

from typing import NamedTuple

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, floor_div, larger, smaller, where

# Floors are in floating point, off by less than this factor.
_ROUNDING = 1 - 1e-12


class StayingSums(NamedTuple):
    """P tiles of the rows of a dense group stay while its N keys pass, one of which is still there for the next tile.

    A key that comes again loads ``loads`` words, and unless its sum is one of s that are in fast memory, the one in
    hand among them, ``travels`` more, with those that it has stored: (P-1)*(loads*(N-1) + travels*(N-s)). The first
    time that one leaves it stores ``once``. Tiles hold a*per_row + s*per_sum + ``beside`` words. ``across``, keys stay
    and the rows of all heads of the group pass.
    """

    tile: str
    sums: str
    per_row: Counts
    per_sum: Counts
    beside: Counts
    loads: Counts
    travels: Counts
    once: Counts = 0
    across: bool = False


def words_that_pass(phase: StayingSums, tiles: Counts, passing: Counts, sums: Counts) -> Counts:
    """Words of all that pass, from the second tile on, with so many sums in fast memory."""
    again = phase.loads * (passing - 1) + phase.travels * (passing - smaller(sums, passing))
    leave = where(tiles > 2, where(passing > 1, passing, 0), passing - 1)
    return (tiles - 1) * again + where(tiles > 1, phase.once * leave, 0)


class SumsWords(NamedTuple):
    """The words as a function of the number of tiles; sums take the rest of ``room``.

    With fewer sums than there are they are no less than a function that is concave, ``least``: up to any number of
    tiles it is least at one of the ends. Once all sums stay, more tiles read more.
    """

    phase: StayingSums
    rows: Counts
    keys: Counts
    room: Counts

    @property
    def most(self) -> Counts:
        """Rows that fit beside one sum; less than one if none do."""
        return smaller(floor_div(self.room - self.phase.per_sum, self.phase.per_row), self.rows)

    @property
    def fewest(self) -> Counts:
        """The fewest tiles, where any fits."""
        return ceil_div(self.rows, larger(self.most, 1))

    @property
    def end(self) -> Counts:
        """The fewest tiles beside all sums; more than there are rows if there is no room for these."""
        beside = smaller(floor_div(self.room - self.keys * self.phase.per_sum, self.phase.per_row), self.rows)
        return where(beside >= 1, ceil_div(self.rows, larger(beside, 1)), self.rows + 1)

    def slots(self, tiles: Counts) -> Counts:
        """Sums beside one of so many tiles."""
        room = self.room - ceil_div(self.rows, tiles) * self.phase.per_row
        return smaller(floor_div(room, self.phase.per_sum), self.keys)

    def words(self, tiles: Counts) -> Counts:
        """What so many tiles move; as many as there are with that many rows in each."""
        whole = ceil_div(self.rows, ceil_div(self.rows, tiles))
        return words_that_pass(self.phase, whole, self.keys, self.slots(tiles))

    def least(self, tiles: Counts) -> Counts:
        """What so many tiles, or any number that has as many rows in each, move at least if some sums travel."""
        phase = self.phase
        sums = (self.room - self.rows * phase.per_row / tiles) / phase.per_sum
        again = phase.loads * (self.keys - 1) + phase.travels * (self.keys - sums)
        return (tiles - 1) * again * _ROUNDING

    def floor(self) -> Counts:
        """Words that no tiles go below, where any fits."""
        first, end = self.fewest, self.end
        last = larger(smaller(end, self.rows + 1) - 1, first)
        ends = smaller(self.least(first), self.least(last))
        all_stay = (end - 1) * self.phase.loads * (self.keys - 1)
        return where(end <= first, all_stay, where(end <= self.rows, smaller(ends, all_stay), ends))


def sums_words(phase: StayingSums, shape: tuple[Counts, Counts, Counts], fast_words: Counts) -> SumsWords:
    """Words for a dense problem of so many heads in a group, rows and keys."""
    group, rows, keys = shape
    stay, come = (keys, group * rows) if phase.across else (group * rows, keys)
    return SumsWords(phase, stay, come, fast_words - phase.beside)
