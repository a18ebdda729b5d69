"""Many planning problems at once: one array a quantity, one element a problem.

A case is one KV head of one sequence with a dense, causal or window mask. Everything here is int64, so cases whose
words might not fit are told apart beforehand.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from attenio.granularity import Granularity
from attenio.masks.patterns import Band
from attenio.masks.patterns.pattern import Counts
from attenio.planning.problems import Problems
from attenio.planning.problems.counts import PatternCounts
from attenio.planning.problems.kinds import Kind, is_for, kind_of
from attenio.planning.words.form import Form, Sizes
from attenio.workload import Direction

Ints = NDArray[np.int64]

# More words than any case moves: stands for "no plan yet".
NOTHING = 2**62
# What is counted once of a band and of parts of it.
_COUNTS = ("scores", "touched_rows", "touched_keys", "key_load_floors", "is_dense")


@dataclass(frozen=True, kw_only=True)
class Cases:
    """What a plan depends on, apart from how often a KV head occurs; units are those of a granularity.

    A case that occurs ``once`` may leave outputs in fast memory from one pass of a training step to the other.
    """

    rows: Ints
    keys: Ints
    left: Ints
    right: Ints
    d: Ints
    value_dim: Ints
    group: Ints
    intermediate_words: Ints
    fast_words: Ints
    row_unit: Counts
    key_unit: Counts
    once: NDArray[np.bool_] | bool = False

    def __post_init__(self) -> None:
        # most machines take any tile: one number then, so that nothing is rounded down to a multiple of ones
        for name in ("row_unit", "key_unit"):
            if np.all(getattr(self, name) == 1):
                object.__setattr__(self, name, 1)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def band(self) -> Band:
        """The patterns of all cases as one band of arrays."""
        shift = self.keys - self.rows
        return Band(rows=self.rows, keys=self.keys, left=self.left, right=self.right, shift=shift)

    @cached_property
    def widths(self) -> tuple[Sizes, Ints]:
        """The different widths that words depend on, of which there are few, and those of every case by their place."""
        columns = np.stack((self.d, self.value_dim, self.intermediate_words, self.group))
        (d, dv, intermediate_words, group), place = different(columns)
        return Sizes(d, dv, d + dv, intermediate_words, group), place  # values are apart from keys

    @property
    def free(self) -> Counts:
        """In which cases tiles may have any size."""
        return (self.row_unit == 1) & (self.key_unit == 1)

    @cached_property
    def kind(self) -> Kind:
        """What kinds of problems they are."""
        return kind_of(self.band)

    def are_for(self, form: Form) -> Counts:
        """In which cases a form is for the problem."""
        return is_for(form, self.kind, self.free)

    def forms(self, of: Callable[[Sizes], tuple[Form, ...]]) -> tuple[Form, ...]:
        """The forms of a dataflow for the different widths; ``of_every_case`` has any part of them case by case."""
        known = self.known_forms
        if of not in known:
            known[of] = of(self.widths[0])
        return known[of]

    @cached_property
    def known_forms(self) -> dict[Callable[[Sizes], tuple[Form, ...]], tuple[Form, ...]]:
        """The forms of the different widths, which parts of the cases share."""
        return {}

    def of_every_case(self, part: "Value") -> "Value":
        """What is known of the different widths, for every case."""
        return take(part, self.widths[1])

    @property
    def area(self) -> Ints:
        """Scores, required or not."""
        return np.asarray(self.rows * self.keys)

    @property
    def scores(self) -> Ints:
        """Required scores."""
        return np.asarray(self.band.scores)

    @cached_property
    def stored_words(self) -> Ints:
        """Words of all scores of a group where they are stored."""
        return np.asarray(self.group * self.scores * self.intermediate_words)

    @property
    def touched_rows(self) -> Ints:
        """Rows that need a key."""
        return np.asarray(self.band.touched_rows)

    @property
    def touched_keys(self) -> Ints:
        """Keys that a row needs."""
        return np.asarray(self.band.touched_keys)

    def compulsory(self, direction: Direction) -> tuple[Ints, Ints]:
        """Words of a query head and of a KV head that any run moves, as ``Workload.compulsory_words`` has them."""
        d, dv, band = self.d, self.value_dim, self.band
        own, shared = band.touched_rows * d, band.touched_keys * (d + dv)
        if direction is not Direction.BACKWARD:
            own = own + self.rows * dv
        if direction is not Direction.FORWARD:
            own, shared = own + band.touched_rows * dv + self.rows * d, shared + self.keys * (d + dv)
        return own, shared

    @cached_property
    def answers(self) -> dict[object, Any]:
        """What several dataflows ask about these cases, by question, so that it is looked for once."""
        return {}

    @cached_property
    def transposed(self) -> "Cases":
        """Rows and keys exchanged, for dataflows that keep keys."""
        turned = replace(self, rows=self.keys, keys=self.rows, left=self.right, right=self.left)
        turned = replace(turned, row_unit=self.key_unit, key_unit=self.row_unit)
        turned.__dict__["band"] = self.band.transposed  # and what has been counted of it
        return turned

    @cached_property
    def unmasked(self) -> "Cases":
        """The same shapes with every score required, for operators that are blind to the mask."""
        return replace(self, left=self.rows + self.keys, right=self.rows + self.keys)

    @cached_property
    def heads_as_rows(self) -> "Cases":
        """The heads of dense groups one under the other, as ``Problems.heads_as_rows``."""
        times = np.where(self.band.is_dense, self.group, 1)
        if (times == 1).all():
            return self
        rows = times * self.rows
        wide = np.where(times > 1, rows + self.keys, 0)
        sides = {"left": np.maximum(self.left, wide), "right": np.maximum(self.right, wide)}
        return replace(self, rows=rows, group=self.group // times, **sides)

    @cached_property
    def fits_int64(self) -> NDArray[np.bool_]:
        """Cases in which no count of words can reach 2^61."""
        a_score = 8.0 * self.group * self.intermediate_words * (self.d + self.value_dim + 4.0)
        return np.asarray(a_score * (self.rows + 1.0) * (self.keys + 1.0) < 2.0**61)


Value = TypeVar("Value")
# What records have that is the same for all cases.
_OF_ALL_CASES = {int, bool, str, type(None)}


def take(value: Value, index: Ints | int) -> Value:
    """The same of some cases: of an array its elements, of a record the same of its fields; the rest is of all."""
    kind = type(value)
    if kind in _OF_ALL_CASES:
        return value
    if isinstance(value, np.ndarray):
        return cast(Value, value[index])
    if isinstance(value, tuple):
        parts = _taken(value, index)
        return kind(*parts) if hasattr(kind, "_fields") else cast(Value, tuple(parts))
    if kind is Band or kind is Cases:
        return cast(Value, _some_of(cast(Band | Cases, value), index))
    if names := getattr(kind, "__dataclass_fields__", None):
        return kind(**dict(zip(names, _taken([getattr(value, name) for name in names], index), strict=True)))
    if isinstance(value, dict):
        return cast(Value, dict(zip(value, _taken(value.values(), index), strict=True)))
    return value


def _some_of(value: Band | Cases, index: Ints | int) -> Band | Cases:
    """What is taken most often, with what has been counted of it; fields are set at once."""
    known, some = vars(value), object.__new__(type(value))
    names = type(value).__dataclass_fields__
    vars(some).update({name: each[index] if type(each := known[name]) is np.ndarray else each for name in names})
    if isinstance(value, Band):
        _take_counts(value, cast(Band, some), index)
        return some
    if not (type(value.row_unit) is type(value.key_unit) is int):
        cast(Cases, some).__post_init__()
    if "band" in known:
        _take_counts(value.band, cast(Cases, some).band, index)
    if "widths" in known:
        sizes, place = known["widths"]
        vars(some).update(widths=(sizes, place[index]), known_forms=value.known_forms)
    return some


def _taken(values: Iterable[Any], index: Ints | int) -> list[Any]:
    return [
        each[index] if (kind := type(each)) is np.ndarray else each if kind in _OF_ALL_CASES else take(each, index)
        for each in values
    ]


def _take_counts(band: Band, some: Band, index: Ints | int) -> None:
    """Take over what has been counted of a band; of items of it, which are more, only what every tile needs."""
    known, names = vars(band), _COUNTS if np.size(index) <= np.size(band.rows) else ("touched_keys",)
    vars(some).update({name: take(known[name], index) for name in names if name in known})


def is_zero(weight: Counts) -> bool:
    """Whether a weight is zero in all cases, so that what it is for need not be counted."""
    return type(weight) is int and weight == 0


def different(table: Ints) -> tuple[Ints, Ints]:
    """The different columns of a table, and for every column which one it is.

    Columns are told apart by one number each, which is sorted far more quickly than they are. Of equal ones that follow
    each other the first is looked at.
    """
    begins = np.flatnonzero(np.append(True, (table[:, 1:] != table[:, :-1]).any(axis=0)))
    if 2 * len(begins) < table.shape[1]:
        columns, place = different(table[:, begins])
        return columns, np.repeat(place, np.diff(begins, append=table.shape[1]))
    multipliers = np.random.default_rng(0).integers(2**63, size=len(table), dtype=np.uint64)
    mixed = (table.astype(np.uint64) * multipliers[:, None]).sum(axis=0)
    _, first, place = np.unique(mixed, return_index=True, return_inverse=True)
    if not np.array_equal(table[:, first[place]], table):  # two columns with the same number
        columns, place = np.unique(table, axis=1, return_inverse=True)
        return columns, place.ravel()
    return table[:, first], place


def single(band: Band, index: int, granularity: Granularity) -> Problems:
    """One band by itself, as problems for the search of one case."""
    rows, keys, left, right, shift = (
        int(values[index]) for values in (band.rows, band.keys, band.left, band.right, band.shift)
    )
    one = Band(rows=rows, keys=keys, left=left, right=right, shift=shift)
    counts = PatternCounts(((one, 1),))
    return Problems(counts=counts, runs=1, group=1, d=1, value_dim=1, intermediate_words=1, granularity=granularity)


def spread(counts: Ints) -> tuple[Ints, Ints]:
    """For ``counts[k]`` items of each owner k, one after the other: the owner of every item, and its number there."""
    owner = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    return owner, np.arange(len(owner), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)


def batches(counts: Ints, most: int) -> Iterator[slice]:
    """Stretches of owners with up to about ``most`` items together."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield slice(start, stop)
        start = stop
