"""Tiles stay while the others pass, and partial sums of some that pass stay too: words and room.

Everything works on integers and on arrays of many cases.
"""

from typing import Any, NamedTuple

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, smaller, where
from attenio.planning.words.stacked_rows import ROUNDING, StackedRows, StackedWords, TilesAndSlots


class StayingSums(NamedTuple):
    """P tiles of the rows of a dense group stay while its N keys pass, one of which is still there for the next tile.

    A key that comes again loads ``loads`` words, and unless its sum is one of s that are in fast memory, the one in
    hand among them, ``travels`` more, with those that it has stored: (P-1)*(loads*(N-1) + travels*(N-s)). The first
    time that one leaves it stores ``once``. Tiles hold a*per_row + s*per_slot + ``beside`` words. ``across``, keys stay
    and the rows of all heads of the group pass.
    """

    tile: str
    slots: str
    per_row: Counts
    per_slot: Counts
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


class SumsWords(TilesAndSlots[StayingSums]):
    """Of sums that stay: what passes are keys here, and slots hold their sums."""

    __slots__ = ()

    def words(self, tiles: Counts) -> Counts:
        """What so many tiles move; as many as there are with that many rows in each."""
        whole = ceil_div(self.rows, ceil_div(self.rows, tiles))
        return words_that_pass(self.phase, whole, self.keys, self.slots(tiles))

    def least(self, tiles: Counts) -> Counts:
        """What so many tiles, or any number that has as many rows in each, move at least if some sums travel."""
        phase = self.phase
        sums = (self.room - self.rows * phase.per_row / tiles) / phase.per_slot
        again = phase.loads * (self.keys - 1) + phase.travels * (self.keys - sums)
        return (tiles - 1) * again * ROUNDING

    def all_stay(self, tiles: Counts) -> Counts:
        """Keys alone come again."""
        return (tiles - 1) * self.phase.loads * (self.keys - 1)


def tiles_and_slots(
    phase: StackedRows | StayingSums, shape: tuple[Counts, Counts, Counts], fast_words: Counts
) -> TilesAndSlots[Any]:
    """Words for a dense problem of so many heads in a group, rows and keys."""
    (group, rows, keys), room = shape, fast_words - phase.beside
    if isinstance(phase, StackedRows):
        return StackedWords(phase, group * rows, keys, room)
    stay, come = (keys, group * rows) if phase.across else (group * rows, keys)
    return SumsWords(phase, stay, come, room)
