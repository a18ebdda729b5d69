"""Room in fast memory for a tile, in many cases at once."""

from dataclasses import dataclass

import numpy as np

from attenio.masks.patterns.pattern import Counts
from attenio.planning.sweeping.cases import Cases, Ints


@dataclass(frozen=True, kw_only=True)
class Rooms:
    """As ``search.room.Room``: a*b*per_score + a*per_row + b*per_key up to ``words`` for a rows and b keys."""

    words: Ints
    per_score: Ints
    per_row: Ints
    per_key: Ints

    def take(self, index: Ints) -> "Rooms":
        """Those of some cases."""
        return Rooms(**{name: values[index] for name, values in vars(self).items()})

    def most_keys(self, rows: Ints) -> Ints:
        """Keys that fit beside this many rows."""
        return np.asarray((self.words - rows * self.per_row) // (rows * self.per_score + self.per_key))

    def taken(self, rows: Ints, keys: Ints) -> Ints:
        """Words that a tile takes."""
        return np.asarray(rows * keys * self.per_score + rows * self.per_row + keys * self.per_key)


def largest_sizes(most: Counts, whole: Ints, unit: Ints) -> Ints:
    """As ``granularity.largest_size``."""
    return np.where(most >= whole, whole, most // unit * unit)


def row_room(cases: Cases, room: Rooms, heads: int = 1) -> Ints:
    """As ``search.room.row_room``, with the room as it is for one head."""
    keys = np.minimum(cases.key_unit, cases.keys)
    most = (room.words - keys * room.per_key) // (heads * (room.per_row + keys * room.per_score))
    return largest_sizes(most, cases.rows, cases.row_unit // np.gcd(cases.row_unit, heads))


def key_room(cases: Cases, room: Rooms, rows: Ints) -> Ints:
    """As ``search.room.key_room``."""
    return largest_sizes(room.most_keys(rows), cases.keys, cases.key_unit)
