"""A fast memory that counts every word, refuses to overflow, and forgets what has left it.

Residency is a ``with`` block. Reserving a buffer takes its words whether they are filled or not, as hardware does;
``holding`` loads part of a matrix into it for as long as the block lasts:

>>> from attenio.memory.matrix import SlowArray
>>> K = SlowArray.elements("K", np.ones((8, 2), dtype=np.float32), ElementType.FP16)
>>> fast = FastMemory(10)
>>> with fast.buffer("K", 4, 2) as buffer, buffer.holding(K, slice(0, 3)) as K_j:
...     K_j.values.shape, fast.in_use_words, fast.trace.loads["K"]
((3, 2), 8, 6)
>>> with fast.buffer("K", 4, 2), fast.buffer("V", 4, 2):
...     pass
Traceback (most recent call last):
attenio.errors.MemoryOverflow: cannot hold 8 words of V: 8 of 10 in use; use a smaller tile
"""

from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from attenio.elements import ElementType
from attenio.errors import MemoryOverflow
from attenio.memory.indices import Indices, compose, size
from attenio.memory.matrix import Matrix, Tile, Values
from attenio.memory.trace import EventKind, Step, Trace
from attenio.quantities import checked_count, show_words

# How many float32 words of capacity a counted memory may claim: as large as any machine the catalogue can state.
_LARGEST = 2**60
# What a stream may be cut into.
_PIECES = ("rows", "columns", "elements")


class FastMemory:
    """One level of memory; what it loads from and stores to is slow memory or the tiles of the level above it."""

    def __init__(self, capacity_words: int, *, intermediate_words: int = 1, trace: Trace | None = None) -> None:
        self.capacity_words = checked_count("fast memory (words)", capacity_words, most=_LARGEST)
        self.intermediate_words = intermediate_words
        self.trace = Trace() if trace is None else trace
        self.in_use_words = 0
        self.peak_words = 0

    def buffer(self, name: str, rows: int, columns: int) -> "Buffer":
        """A ``with`` block that reserves room for elements, one word each."""
        return Buffer(self, name, (rows, columns), 1)

    def packed(self, name: str, rows: int, columns: int, per_word: int) -> "Buffer":
        """A ``with`` block that reserves room for elements of which so many share a word."""
        return Buffer(self, name, (rows, columns), 1, per_word)

    def scratch(self, name: str, rows: int, columns: int) -> "Buffer":
        """A ``with`` block that reserves room for intermediates, as wide as the accumulator."""
        return Buffer(self, name, (rows, columns), self.intermediate_words)

    def reserve(self, name: str, words: int) -> None:
        """Take words out of the capacity; buffers do this when their block opens."""
        if self.in_use_words + words > self.capacity_words:
            raise MemoryOverflow(
                f"cannot hold {show_words(words)} of {name}: {self.in_use_words:,} of {self.capacity_words:,} in use;"
                " use a smaller tile"
            )
        self.in_use_words += words
        self.peak_words = max(self.peak_words, self.in_use_words)
        self.trace.occupied(EventKind.RESERVE, name, words)

    def release(self, name: str, words: int) -> None:
        """Give words back; buffers do this when their block closes."""
        self.in_use_words -= words
        self.trace.occupied(EventKind.RELEASE, name, words)

    def load(
        self,
        source: Matrix,
        into: Tile,
        rows: Indices | None = None,
        *,
        at: NDArray[np.intp] | None = None,
        cells: NDArray[np.bool_] | None = None,
    ) -> None:
        """Load ``rows`` of the source (by default those of the tile) and the tile's columns.

        ``at`` names the rows of the tile that they go to when they do not fill it. With ``cells``, only the marked
        values move and the others become -inf: scores that are not required.
        """
        where = into.rows if rows is None else rows
        values = source.values[where, into.columns]
        if cells is not None:
            into.values[...] = np.where(cells, values, np.float32(-np.inf))
            moved = int(np.count_nonzero(cells))
        else:
            into.values[slice(None) if at is None else at] = values
            moved = values.size
        named = (compose(source.rows, where), into.columns)
        self.trace.moved(EventKind.LOAD, source.name, source.words(moved), named, cells=cells)

    def store(
        self,
        tile: Tile,
        into: Matrix,
        rows: Indices | None = None,
        *,
        at: NDArray[np.intp] | None = None,
        cells: NDArray[np.bool_] | None = None,
        element: ElementType | None = None,
    ) -> None:
        """Store the tile to ``rows`` of a matrix (by default the tile's own), rounded to the matrix's element type.

        ``at`` and ``cells`` select part of the tile as in ``load``. ``element`` stores intermediates as elements of
        that type, one word each, into a matrix that has room for intermediates.
        """
        where = tile.rows if rows is None else rows
        kind = into.element if element is None else element
        values = tile.values if at is None else tile.values[at]
        if kind is not None:
            values = kind.rounded(values)
        if cells is not None:
            into.values[where, tile.columns] = np.where(cells, values, into.values[where, tile.columns])
            moved = int(np.count_nonzero(cells))
        else:
            into.values[where, tile.columns] = values
            moved = values.size
        words = moved * (into.words_each if element is None else 1)
        self.trace.moved(EventKind.STORE, into.name, words, (compose(into.rows, where), tile.columns), cells=cells)

    def computed(self, step: Step, rows: Indices, columns: Indices, inner: Indices | None = None) -> None:
        """Note a computation on what the memory holds."""
        self.trace.computed(step, rows, columns, inner)


class Buffer:
    """Reserved room of rows x columns values; part of it may be in use when tiles are ragged."""

    __slots__ = ("_fast", "_per_word", "_shape", "_values", "_words", "_words_each", "name")

    def __init__(self, fast: FastMemory, name: str, shape: tuple[int, int], words_each: int, per_word: int = 1) -> None:
        self.name = name
        self._fast = fast
        self._shape = shape
        self._words_each, self._per_word = words_each, per_word
        self._words = -(-shape[0] * shape[1] * words_each // per_word)
        self._values: Values | None = None

    def __enter__(self) -> "Buffer":
        self._fast.reserve(self.name, self._words)
        self._values = np.full(self._shape, np.nan, dtype=np.float32)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._values is not None
        self._values.fill(np.nan)  # whoever still looks at it computes NaN
        self._values = None
        self._fast.release(self.name, self._words)

    def over(self, rows: Indices, columns: Indices, *, name: str = "") -> Tile:
        """The part of the buffer for these rows and columns, as a tile of the matrix ``name``."""
        height, width = size(rows), size(columns)
        if height > self._shape[0] or width > self._shape[1]:
            raise MemoryOverflow(
                f"cannot hold {height:,} x {width:,} of {name or self.name} in a buffer of"
                f" {self._shape[0]:,} x {self._shape[1]:,}; reserve a larger buffer"
            )
        assert self._values is not None, f"buffer {self.name} is used outside its with block"
        values = self._values[:height, :width]
        return Tile(name or self.name, values, rows, columns, self._words_each, per_word=self._per_word)

    def filled(self, rows: Indices, columns: Indices, value: float) -> Tile:
        """The part of the buffer for these rows and columns, set to one value."""
        tile = self.over(rows, columns)
        tile.values.fill(value)
        return tile

    def zeros(self, rows: Indices, columns: Indices) -> Tile:
        """The part of the buffer for these rows and columns, set to zero."""
        return self.filled(rows, columns, 0.0)

    def passing(self, rows: Indices, columns: Indices, *, name: str = "") -> Tile:
        """Values computed inside a ``streaming`` block that pass through this one-value buffer with the pieces."""
        assert self._fast.trace.stream, f"{name or self.name} can pass piece by piece only while something streams"
        self.over(slice(0, 1), slice(0, 1))
        values = np.zeros((size(rows), size(columns)), dtype=np.float32)
        return Tile(name or self.name, values, rows, columns, self._words_each)

    def holding(self, source: Matrix, rows: Indices, columns: Indices | None = None) -> "Holding":
        """A ``with`` block in which the buffer holds these rows and columns of the source."""
        return Holding(self._fast, self, source, rows, columns)

    def streaming(self, source: Matrix, rows: Indices, columns: Indices | None = None, *, along: str) -> "Streaming":
        """A ``with`` block in which pieces of the source pass through the buffer one after the other.

        A piece is one row (``along="rows"``), one column or one element of what is named, and must fit the buffer.
        Every word is counted, and the buffer never holds more than one piece; but the block sees all of them as one
        array, because what it does with a piece does not depend on the others, and one vectorised step computes the
        same numbers.
        """
        return Streaming(self._fast, self, source, (rows, columns), along)


class Holding:
    """Rows and columns of a matrix that stay in a buffer for the length of a ``with`` block."""

    __slots__ = ("_buffer", "_columns", "_fast", "_rows", "_source", "_tile")

    def __init__(
        self, fast: FastMemory, buffer: Buffer, source: Matrix, rows: Indices, columns: Indices | None
    ) -> None:
        self._fast, self._buffer, self._source = fast, buffer, source
        self._rows, self._columns = rows, columns
        self._tile: Tile | None = None

    def __enter__(self) -> Tile:
        source = self._source
        columns = source.columns if self._columns is None else self._columns
        tile = self._buffer.over(compose(source.rows, self._rows), columns, name=source.name)
        self._fast.load(source, tile, self._rows)
        self._tile = tile
        return tile

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._tile is not None:
            self._tile.values.fill(np.nan)


class Streaming:
    """Pieces of a matrix that pass through a buffer during a ``with`` block."""

    __slots__ = ("_along", "_buffer", "_fast", "_source", "_values", "_where")

    def __init__(
        self, fast: FastMemory, buffer: Buffer, source: Matrix, where: tuple[Indices, Indices | None], along: str
    ) -> None:
        assert along in _PIECES
        self._fast, self._buffer, self._source = fast, buffer, source
        self._where, self._along = where, along
        self._values: Values | None = None

    def __enter__(self) -> Tile:
        source, rows = self._source, self._where[0]
        columns = source.columns if self._where[1] is None else self._where[1]
        piece = (rows if self._along == "columns" else slice(0, 1), columns if self._along == "rows" else slice(0, 1))
        self._buffer.over(*piece, name=source.name)
        trace = self._fast.trace
        trace.open_stream()
        values = np.array(source.values[rows, columns])
        named = (compose(source.rows, rows), columns)
        trace.moved(EventKind.LOAD, source.name, source.words(values.size), named, along=self._along)
        self._values = values
        return Tile(source.name, values, *named, source.words_each)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._fast.trace.close_stream()
        if self._values is not None:
            self._values.fill(np.nan)
