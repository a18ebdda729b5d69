"""Room in fast memory for a tile: how many keys fit beside how many rows."""

from typing import NamedTuple

from attenio.granularity import largest_size
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import smaller, where
from attenio.planning.problems import Problems


class Room(NamedTuple):
    """Fast memory for a tile of a rows and b keys: a*b*per_score + a*per_row + b*per_key up to ``words``."""

    words: int
    per_score: int
    per_row: int
    per_key: int = 0

    def most_rows(self) -> int:
        """Rows that fit beside one key; less than one if nothing fits."""
        return (self.words - self.per_key) // (self.per_row + self.per_score)

    def most_keys(self, rows: Counts) -> Counts:
        """Keys that fit beside this many rows."""
        return (self.words - rows * self.per_row) // (rows * self.per_score + self.per_key)


def row_room(problems: Problems, room: Room, heads: int = 1) -> int:
    """The largest query tile that fits beside the smallest key tile, in every problem; less than one if none does.

    The room is that of tiles that so many heads share.
    """
    counts = problems.counts
    granularity = problems.granularity
    if granularity.is_free:
        return min(room.most_rows(), counts.most_rows)
    most = counts.most_rows
    for height, width in counts.shapes:
        keys = min(granularity.keys, width)
        fits = (room.words - keys * room.per_key) // (room.per_row + keys * room.per_score)
        most = most if fits >= height else min(most, fits)
    return largest_size(most, counts.most_rows, granularity.positions(heads))


def key_room(problems: Problems, rooms: tuple[Room, ...], rows: Counts) -> Counts:
    """The largest key tile that fits beside a query tile of ``rows``, in every problem; less than one if none does."""
    widest, unit = _any_keys(problems, rooms, rows), problems.granularity.keys
    return widest if unit == 1 else where(widest == problems.counts.most_keys, widest, widest // unit * unit)


def _any_keys(problems: Problems, rooms: tuple[Room, ...], rows: Counts) -> Counts:
    counts = problems.counts
    if len(counts.shapes) == 1:
        ((height, widest),) = counts.shapes
        for room in rooms:
            widest = smaller(widest, room.most_keys(smaller(rows, height)))
        return widest
    widest = counts.most_keys + 0 * rows
    for room in rooms:
        for height, keys in counts.shapes:
            fits = room.most_keys(smaller(rows, height))
            widest = where(fits >= keys, widest, smaller(widest, fits))
    return widest
