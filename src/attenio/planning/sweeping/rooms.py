"""Room in fast memory for a tile, in many cases at once."""

from dataclasses import dataclass

import numpy as np

from attenio.planning.sweeping.cases import Ints

__all__ = ["Rooms"]


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

    def most_rows(self) -> Ints:
        """Rows that fit beside one key; less than one where nothing fits."""
        return np.asarray((self.words - self.per_key) // (self.per_row + self.per_score))

    def most_keys(self, rows: Ints) -> Ints:
        """Keys that fit beside this many rows."""
        return np.asarray((self.words - rows * self.per_row) // (rows * self.per_score + self.per_key))

    def taken(self, rows: Ints, keys: Ints) -> Ints:
        """Words that a tile takes."""
        return np.asarray(rows * keys * self.per_score + rows * self.per_row + keys * self.per_key)
