"""Matrices by where they lie: whole in slow memory, or a tile of one in fast memory.

A tile knows which rows and columns of its matrix it is. So the trace can name every element that moves, and the tiles
of one level can be the slow side of the level below.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.elements import ElementType
from attenio.memory.indices import Indices, compose, span

Values = NDArray[np.float32]


@dataclass(slots=True)
class Matrix:
    """Named values with their row and column numbers; ``words_each`` is what one value takes to move.

    ``per_word`` values share a word where they take fewer bits; the last word of a move may be half empty.
    ``element`` is the type that values are rounded to when they are stored here; None for intermediates, which are
    rounded where they are computed.
    """

    name: str
    values: Values
    rows: Indices
    columns: Indices
    words_each: int = 1
    element: ElementType | None = None
    per_word: int = 1

    def words(self, values: int) -> int:
        """Words that so many values take to move."""
        return -(-values * self.words_each // self.per_word)


@dataclass(slots=True)
class Tile(Matrix):
    """The part of a matrix that a buffer of fast memory holds now."""

    def row(self, index: int) -> "Tile":
        """One row of the tile."""
        one = slice(index, index + 1)
        rows = compose(self.rows, one)
        return Tile(self.name, self.values[one], rows, self.columns, self.words_each, per_word=self.per_word)

    def first_columns(self, count: int) -> "Tile":
        """The first columns of the tile, where they lie: nothing moves."""
        part = slice(0, count)
        columns = compose(self.columns, part)
        return Tile(self.name, self.values[:, part], self.rows, columns, self.words_each, per_word=self.per_word)


@dataclass(slots=True)
class SlowArray(Matrix):
    """A whole matrix in slow memory, wrapping a two-dimensional float32 array.

    >>> SlowArray.elements("K", np.zeros((8, 2), dtype=np.float32), ElementType.FP16).words_each
    1
    """

    @classmethod
    def elements(cls, name: str, values: Values, element: ElementType) -> "SlowArray":
        """Inputs or outputs: one word a value, rounded to ``element`` when stored."""
        rows, columns = values.shape
        return cls(name, values, span(rows), span(columns), 1, element)

    @classmethod
    def packed(cls, name: str, values: Values, per_word: int) -> "SlowArray":
        """Inputs of which so many share a word."""
        rows, columns = values.shape
        return cls(name, values, span(rows), span(columns), per_word=per_word)

    @classmethod
    def unwritten(cls, name: str, shape: tuple[int, int], element: ElementType) -> "SlowArray":
        """An output that nobody has stored yet: NaN everywhere, so a forgotten element shows."""
        return cls.elements(name, np.full(shape, np.nan, dtype=np.float32), element)

    @classmethod
    def intermediate(cls, name: str, shape: tuple[int, int], words_each: int) -> "SlowArray":
        """Room for spilled intermediates: NaN until stored, so reading what was never written shows."""
        rows, columns = shape
        return cls(name, np.full(shape, np.nan, dtype=np.float32), span(rows), span(columns), words_each)
