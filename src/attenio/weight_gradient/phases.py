"""Phases of a weight gradient: the words that each moves and holds with given tiles, and its best tiles.

A phase has all of the fast memory, so its tiles are searched by themselves. There are n rows and m keys, all of them
needed, widths d, and w words an intermediate. U(a) keys are read by tiles of a rows; a prime clips a tile.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from attenio.planning.plan import Tiles
from attenio.planning.problems import Problems, counting
from attenio.planning.search.forms import best_of_form
from attenio.planning.search.room import Room
from attenio.planning.search.row_tiles import RowWords, even_tile, piece_ends
from attenio.planning.words.cuts import column_tiles
from attenio.planning.words.form import Form, Held

_AT_ONCE = 2**16
_LARGEST_INT64_SUM = 2**62


class Phase(Protocol):
    """What every phase answers."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its tiles, in order."""

    def moved_words(self, tiles: Tiles) -> int:
        """Words loaded and stored."""

    def peak_words(self, tiles: Tiles) -> int:
        """Words held at once."""

    def best_sizes(self, fast_words: int) -> tuple[int, ...] | None:
        """Sizes of the tiles that move the fewest words, or None if none fits."""


class OverScores(NamedTuple):
    """Phases over the scores that the gradient of attention knows too."""

    problems: Problems
    form: Form

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its tiles, in order."""
        return self.form.names

    def moved_words(self, tiles: Tiles) -> int:
        """Words loaded and stored."""
        return counting.moved_words(self.problems, self.form, tiles)

    def peak_words(self, tiles: Tiles) -> int:
        """Words held at once."""
        return counting.peak_words(self.problems, self.form, tiles)

    def best_sizes(self, fast_words: int) -> tuple[int, ...] | None:
        """The best tiles of the form."""
        best = best_of_form(self.problems, self.form, fast_words)
        return None if best is None else tuple(best.tiles.values())


class ResidentKeys(NamedTuple):
    """All keys, weights and their gradients stay while rows pass by once: 2(n + m)d + 4d² words."""

    problems: Problems
    held: Held
    names: tuple[str, ...] = ("query_tile", "key_tile")

    def moved_words(self, tiles: Tiles) -> int:
        """The compulsory words, whatever the tiles."""
        d = self.problems.d
        return int(2 * (self.problems.counts.rows + self.problems.counts.touched_keys) * d + 4 * d * d)

    def peak_words(self, tiles: Tiles) -> int:
        """Words held at once."""
        return _held(self.problems, self.held, tiles)

    def best_sizes(self, fast_words: int) -> tuple[int, ...] | None:
        """One row at a time will do, and as many of its scores as fit."""
        spare = fast_words - self.peak_words(Tiles.of(query_tile=1, key_tile=1))
        if spare < 0:
            return None
        return 1, min(self.problems.counts.most_keys, 1 + spare // self.problems.intermediate_words)


class Sweep(NamedTuple):
    """Every tile of rows passes over the keys once: 2 d U(a) + per_tile ceil(n/a) words."""

    problems: Problems
    held: Held
    per_tile: int
    names: tuple[str, ...] = ("query_tile", "key_tile")

    def moved_words(self, tiles: Tiles) -> int:
        """Words loaded and stored."""
        return self._words(tiles["query_tile"])

    def peak_words(self, tiles: Tiles) -> int:
        """Words held at once."""
        return _held(self.problems, self.held, tiles)

    def best_sizes(self, fast_words: int) -> tuple[int, ...] | None:
        """Words depend on the query tile alone; as many keys as fit beside it."""
        room = Room(fast_words, self.held.per_score, self.held.per_row, self.held.per_key)
        if room.most_rows() < 1:
            return None
        a = self._query_tile(min(room.most_rows(), self.problems.counts.most_rows))
        return a, min(self.problems.counts.most_keys, room.most_keys(a))

    def _query_tile(self, most: int) -> int:
        """The smallest tile up to ``most`` with the fewest words.

        Keys read are concave in the tile between two kinks, and the number of tiles is constant there, so that ends of
        pieces are enough.
        """
        problems = self.problems
        even = even_tile(problems.counts.most_rows, most)
        if problems.counts.is_dense:
            return even
        best = min((self._words(tile), tile) for tile in (even, most))
        # Tiles below this one read too many keys even if weights cost no more than with the fewest tiles.
        spare = best[0] - self.per_tile * -(-problems.counts.rows // most)
        least = RowWords(problems=problems, live=0, loads=2 * problems.d).least_tile(spare)
        assert problems.floors.kinks is not None
        ends = piece_ends(problems.floors.kinks, least, most)
        tried = np.arange(least, most + 1, dtype=np.int64) if ends is None else np.asarray(ends, dtype=np.int64)
        for start in range(0, len(tried), _AT_ONCE):
            best = min(best, self._best_of(tried[start : start + _AT_ONCE]))
        return best[1]

    def _best_of(self, tiles: NDArray[np.int64]) -> tuple[int, int]:
        problems = self.problems
        most = 2 * problems.d * problems.counts.area + self.per_tile * problems.counts.rows
        exact = np.int64 if most < _LARGEST_INT64_SUM else object
        words = 2 * problems.d * problems.counts.key_loads(tiles).astype(exact)
        words = words + self.per_tile * (-(-problems.counts.rows // tiles)).astype(exact)
        fewest = words.min()
        return int(fewest), int(tiles[words == fewest].min())

    def _words(self, tile: int) -> int:
        counts = self.problems.counts
        return int(2 * self.problems.d * counts.key_loads(tile) + self.per_tile * -(-counts.rows // tile))


class Projection(NamedTuple):
    """Both products n x d by d x d, weights of c columns stay: 2(nd ceil(d/c) + d² + ndw), holds dc' + c'w + 1."""

    problems: Problems
    names: tuple[str, ...] = ("projection_columns",)

    def moved_words(self, tiles: Tiles) -> int:
        """Words loaded and stored."""
        n, d, w = self.problems.counts.rows, self.problems.d, self.problems.intermediate_words
        return 2 * (n * d * -(-d // tiles["projection_columns"]) + d * d + n * d * w)

    def peak_words(self, tiles: Tiles) -> int:
        """Weights, sums of one row, one element."""
        d = self.problems.d
        return min(tiles["projection_columns"], d) * (d + self.problems.intermediate_words) + 1

    def best_sizes(self, fast_words: int) -> tuple[int, ...] | None:
        """As many columns as fit."""
        d = self.problems.d
        most = min(d, (fast_words - 1) // (d + self.problems.intermediate_words))
        return None if most < 1 else (even_tile(d, most),)


class ResultTile(NamedTuple):
    """Two products of ``height`` by d results, p rows and c columns of them stay.

    Moved are 2(left ceil(d/c) + right ceil(height/p) + results) words, held p'c'w + p' + passing.
    """

    problems: Problems
    names: tuple[str, ...]
    height: int
    left: int
    right: int
    results: int
    passing: int

    def moved_words(self, tiles: Tiles) -> int:
        """Words loaded and stored."""
        rows, columns = (tiles[name] for name in self.names)
        return self._words(rows, columns)

    def peak_words(self, tiles: Tiles) -> int:
        """The tile, a column of elements, and what passes."""
        rows, columns = (tiles[name] for name in self.names)
        p, c = min(rows, self.height), min(columns, self.problems.d)
        return p * c * self.problems.intermediate_words + p + self.passing

    def best_sizes(self, fast_words: int) -> tuple[int, ...] | None:
        """Only the number of tiles each way matters, and the narrowest leave room for the most rows."""
        sizes = []
        for _, columns in column_tiles(self.problems.d):
            fits = (fast_words - self.passing) // (columns * self.problems.intermediate_words + 1)
            if fits >= 1:
                sizes.append((even_tile(self.height, min(self.height, fits)), columns))
        return min(sizes, key=lambda size: (self._words(*size), *size), default=None)

    def _words(self, rows: int, columns: int) -> int:
        products = self.left * -(-self.problems.d // columns) + self.right * -(-self.height // rows)
        return 2 * (products + self.results)


def _held(problems: Problems, held: Held, tiles: Tiles) -> int:
    a, b = min(tiles["query_tile"], problems.counts.rows), min(tiles["key_tile"], problems.counts.most_keys)
    return int(a * b * held.per_score + a * held.per_row + b * held.per_key + held.beside)
