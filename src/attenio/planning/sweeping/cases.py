"""Many planning problems at once: one array a quantity, one element a problem.

A case is one KV head of one sequence with a dense, causal or window mask. Everything here is int64, so cases whose
words might not fit are told apart beforehand.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attenio.granularity import Granularity
from attenio.masks.patterns import Band
from attenio.planning.problems import Problems
from attenio.planning.words.form import Sizes

Ints = NDArray[np.int64]

# More words than any case moves: stands for "no plan yet".
NOTHING = 2**62


@dataclass(frozen=True, kw_only=True)
class Cases:
    """What a plan depends on, apart from how often a KV head occurs; units are those of a granularity."""

    rows: Ints
    keys: Ints
    left: Ints
    right: Ints
    d: Ints
    value_dim: Ints
    group: Ints
    intermediate_words: Ints
    fast_words: Ints
    row_unit: Ints
    key_unit: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_]) -> "Cases":
        """Some of the cases."""
        return Cases(**{field.name: getattr(self, field.name)[index] for field in fields(self)})

    @cached_property
    def band(self) -> Band:
        """The patterns of all cases as one band of arrays."""
        shift = self.keys - self.rows
        return Band(rows=self.rows, keys=self.keys, left=self.left, right=self.right, shift=shift)

    @cached_property
    def sizes(self) -> Sizes:
        """The widths that words depend on; values are apart from keys."""
        return Sizes(self.d, self.value_dim, self.d + self.value_dim, self.intermediate_words, self.group)

    @property
    def area(self) -> Ints:
        """Scores, required or not."""
        return np.asarray(self.rows * self.keys)

    @property
    def scores(self) -> Ints:
        """Required scores."""
        return np.asarray(self.band.scores)

    @property
    def touched_rows(self) -> Ints:
        """Rows that need a key."""
        return np.asarray(self.band.touched_rows)

    @property
    def touched_keys(self) -> Ints:
        """Keys that a row needs."""
        return np.asarray(self.band.touched_keys)

    @cached_property
    def answers(self) -> dict[object, Any]:
        """What several dataflows ask about these cases, by question, so that it is looked for once."""
        return {}

    @cached_property
    def transposed(self) -> "Cases":
        """Rows and keys exchanged, for dataflows that keep keys."""
        turned = replace(self, rows=self.keys, keys=self.rows, left=self.right, right=self.left)
        return replace(turned, row_unit=self.key_unit, key_unit=self.row_unit)._over(self.band.transposed)

    @cached_property
    def unmasked(self) -> "Cases":
        """The same shapes with every score required, for operators that are blind to the mask."""
        return replace(self, left=self.rows + self.keys, right=self.rows + self.keys)

    def with_values(self, width: Ints) -> "Cases":
        """The same cases with values of this width."""
        return replace(self, value_dim=width)._over(self.band)

    def _over(self, band: Band) -> "Cases":
        """These cases with their band as it is known already, and what has been counted of it."""
        self.__dict__["band"] = band
        return self

    @cached_property
    def fits_int64(self) -> NDArray[np.bool_]:
        """Cases in which no count of words can reach 2^61."""
        a_score = 8.0 * self.group * self.intermediate_words * (self.d + self.value_dim + 4.0)
        return np.asarray(a_score * (self.rows + 1.0) * (self.keys + 1.0) < 2.0**61)


def take_band(band: Band, index: NDArray[np.intp] | NDArray[np.bool_]) -> Band:
    """Some of the bands of a band of arrays."""
    return Band(
        rows=band.rows[index],
        keys=band.keys[index],
        left=band.left[index],
        right=band.right[index],
        shift=band.shift[index],
    )


def single(band: Band, index: int, granularity: Granularity) -> Problems:
    """One band by itself, as problems for the search of one case."""
    rows, keys, left, right, shift = (
        int(values[index]) for values in (band.rows, band.keys, band.left, band.right, band.shift)
    )
    one = Band(rows=rows, keys=keys, left=left, right=right, shift=shift)
    return Problems(
        patterns=((one, 1),), runs=1, group=1, d=1, value_dim=1, intermediate_words=1, granularity=granularity
    )


def spread(counts: Ints) -> tuple[Ints, Ints]:
    """For ``counts[k]`` items of each owner k, one after the other: the owner of every item, and its number there."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def batches(counts: Ints, most: int) -> Iterator[slice]:
    """Stretches of owners with up to about ``most`` items together."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield slice(start, stop)
        start = stop
