"""Room in fast memory for a tile: how many keys fit beside how many rows."""

from typing import NamedTuple

from attenio.patterns.pattern import Counts
from attenio.patterns.sums import smaller, where
from attenio.planning.problems import Problems

__all__ = ["Room", "key_room"]


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


def key_room(problems: Problems, rooms: tuple[Room, ...], rows: Counts) -> Counts:
    """The largest key tile that fits beside a query tile of ``rows``, in every problem; less than one if none does."""
    if len(problems.shapes) == 1:
        ((height, widest),) = problems.shapes
        for room in rooms:
            widest = smaller(widest, room.most_keys(smaller(rows, height)))
        return widest
    widest = problems.most_keys + 0 * rows
    for room in rooms:
        for height, keys in problems.shapes:
            fits = room.most_keys(smaller(rows, height))
            widest = where(fits >= keys, widest, smaller(widest, fits))
    return widest
