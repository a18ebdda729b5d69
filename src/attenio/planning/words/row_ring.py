"""Keys pass one by one while rows that meet the next one too stay: the rows of such a ring, and its room.

Everything works on integers and on arrays of many cases.
"""

from dataclasses import replace
from typing import NamedTuple

from attenio.masks.patterns.band import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import larger, where


class RowRing(NamedTuple):
    """Keys of a band pass one by one, and slots hold the rows that need a key and the next one: no words of its own.

    Rows that a key is the first to meet begin their sums when its gradient has been stored, and those that it is the
    last to meet have ended theirs before it begins: beside the gradient of a key are the sums of rows that need both of
    its neighbours. Others are in hand in its place. It holds s*per_slot + t*per_sum + ``beside`` words with t rows that
    need three keys in a row, and the larger of ``per_key`` and (s' - t)*per_sum with s' that need two, one at least.
    ``of_dense``, it is for dense problems too, of which all rows are in the ring.
    """

    slots: str
    per_slot: Counts
    per_sum: Counts
    per_key: Counts
    beside: Counts
    of_dense: bool = False


class RingRows(NamedTuple):
    """The most rows that need two neighbouring keys, one at least, and that need both neighbours of a key."""

    of_two: Counts
    of_three: Counts

    @property
    def in_hand(self) -> Counts:
        """Sums of rows that are there while no gradient of a key is, beside those that always are."""
        return larger(self.of_two - self.of_three, 1)


def ring_rows(band: Band) -> RingRows:
    """Counted for a band, or for many; of a single key, all rows that need it share it with the next one."""
    across = band.transposed
    narrower = replace(across, left=across.left - 1, right=across.right - 1)
    inside = narrower.part(1 + 0 * across.rows, larger(across.rows - 1, 2), 0 * across.keys, across.keys)
    return RingRows(
        larger(where(band.keys > 1, across.most_alive_inside, across.longest_row), 1),
        where(across.rows > 2, larger(inside.longest_row, 0), 0),
    )


def held_words(phase: RowRing, rows: RingRows, slots: Counts) -> Counts:
    """Words held at once, with so many slots."""
    taking_turns = larger(phase.per_key, rows.in_hand * phase.per_sum)
    return slots * phase.per_slot + rows.of_three * phase.per_sum + taking_turns + phase.beside
