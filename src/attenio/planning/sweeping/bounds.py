"""The largest bound for ordinary products of many points at once, as ``largest_ordinary(lower_bounds(...))`` has it."""

from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.bounds import ordinary_words
from attenio.bounds.backward import gradient_words, passing_sum_words, words_in_order
from attenio.bounds.few_words import few_word_words
from attenio.bounds.held_scores import held_score_words
from attenio.bounds.mask_edges import Edges, edges_of_band, may_be_ahead, raised_at_edges
from attenio.bounds.row_sums import row_sum_words
from attenio.bounds.short_periods import words_over_periods
from attenio.bounds.single_stays import words_again_of_band
from attenio.bounds.tiles_at_edges import may_be_ahead_in_small, words_at_edges
from attenio.planning.sweeping.cases import Cases, Ints, spread, take
from attenio.planning.sweeping.points import Points
from attenio.workload import Direction

MOST_WORDS = 2**63 - 1
# As many numbers more than there are points, so that points of equal machines and widths may lie in rows.
_MORE = 1.25
# Fast memories, in squares of d, up to which some forward bounds say something: larger ones are asked about apart.
_SMALL = 2.5
# Words that come again are no more than the compulsory ones: both are of the same rows and keys.
_MOST_AGAIN = 2

Floats = NDArray[np.float64]


class _Rows(NamedTuple):
    """Points in rows of equal widths and memories: much of a bound depends on these alone and is found once a row.

    ``table`` has the points of every row, the first of them again where there are fewer than in others.
    """

    table: Ints

    def of_rows(self, values: Ints) -> Floats:
        """What all points of a row have in common, as a column."""
        return np.asarray(values[self.table[:, :1]], dtype=np.float64)

    def in_order(self, by_table: Floats) -> Floats:
        """What was by_table in the table, point by point."""
        words = np.empty(self.table.max() + 1)
        words[self.table] = by_table
        return words


def largest_bounds(
    points: Points, index: Ints, of_cases: tuple[Cases, Ints], moved: Ints
) -> tuple[Ints, NDArray[np.bool_]]:
    """The words of some points, whose cases are at these places, and where they can be counted.

    ``moved`` are those of their plans, for one KV head: where these are compulsory no bound says more.
    """
    (cases, place), runs = of_cases, points.runs[index]
    own, shared = cases.compulsory(Direction.named(points.grid.direction))
    least = (cases.group * own + shared)[place]
    left = np.flatnonzero(moved > least)
    if len(left) == len(index):
        return _largest(points, index, cases, place)
    words, countable = least * runs, np.ones(len(index), dtype=np.bool_)
    if left.size:
        words[left], countable[left] = _largest(points, index[left], cases, place[left])
    return words, countable


def _largest(points: Points, index: Ints, cases: Cases, place: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The same, whatever plans move."""
    direction, asked = Direction.named(points.grid.direction), _Asked(points, index, cases, place)
    words, countable = asked.bound(direction)
    if direction is Direction.TRAINING:
        passes = asked.bound(Direction.FORWARD), asked.bound(Direction.BACKWARD, saved=True)
        held = points.inside_words[index] * points.units[index]
        countable &= passes[0][1] & passes[1][1] & (passes[0][0] < MOST_WORDS - np.maximum(passes[1][0], 0))
        words = np.maximum(words, words_in_order(passes[0][0], passes[1][0], held))
    return words, countable


class _Asked:
    """Points, and what bounds of any direction ask about them."""

    def __init__(self, points: Points, index: Ints, cases: Cases, place: Ints) -> None:
        self.cases, self.place, self.runs = cases, place, points.runs[index]
        self.units = points.units[index]
        columns = np.stack((cases.d[place], cases.value_dim[place], points.inside_words[index], self.units))
        self.columns = columns
        self.rows = _rows(points.codes(index, ("d", "value_dim", "dtypes", "machines")))
        d, value_dim, inside, units = (self.rows.of_rows(values) for values in columns)
        self.widths_and_memory = d, value_dim, inside, units
        self.scores = self._summed(cases.band.scores)

    def _summed(self, counts: Ints) -> Floats:
        """Counts of all heads and runs, in rows."""
        total, _ = _product_sum((self.cases.group[self.place], counts[self.place], 0 * self.runs), self.runs)
        return np.asarray(total[self.rows.table])

    def _gradient_entries(self) -> tuple[Floats, Floats]:
        """Entries of dQ, and of dK and dV, of all heads and runs, in rows, as ``Workload.gradient_words`` has them."""
        cases, place = self.cases, self.place
        own, shared = cases.rows * cases.d, cases.keys * (cases.d + cases.value_dim)
        of_rows, _ = _product_sum((cases.group[place], own[place], 0 * self.runs), self.runs)
        of_keys, _ = _product_sum((cases.group[place], 0 * self.runs, shared[place]), self.runs)
        return np.asarray(of_rows[self.rows.table]), np.asarray(of_keys[self.rows.table])

    def _raised_at_edges(self, floor: Floats, compulsory: Floats, direction: Direction) -> Floats:
        """A floor under words, and the bound of the edges of masks where it is above both this and compulsory words."""
        index, sizes = self._masked
        near = np.flatnonzero(may_be_ahead(take(self.cases.band, self.place[index]), sizes, direction))
        if not near.size:
            return floor
        index, sizes = index[near], take(sizes, near)
        edges, known, raised = self._edges(index), np.maximum(floor[index], compulsory[index]), floor.copy()
        words = known
        for sums in (True, False) if direction is Direction.FORWARD else (False,):
            words = raised_at_edges(words, edges, sizes, direction, sums=sums)
        raised[index] = np.where(words > known, words, floor[index])
        return raised

    def _at_edges(self, direction: Direction, *, saved: bool) -> Floats:
        """Those of tiles at edges in small memories; a step makes what both of its passes make."""
        least_words, (index, sizes) = np.zeros(len(self.place)), self._masked
        passes = [each for each in (Direction.FORWARD, Direction.BACKWARD) if direction in (each, Direction.TRAINING)]
        for each in passes:
            near = np.flatnonzero(may_be_ahead_in_small(sizes, each))
            if near.size:
                d, value_dim, fast_words = (size[near] for size in sizes)
                words = words_at_edges(self._edges(index[near]), (d, value_dim, fast_words), each, saved=saved)
                least_words[index[near]] = np.maximum(least_words[index[near]], words)
        return least_words

    @cached_property
    def _masked(self) -> tuple[Ints, tuple[Floats, Floats, Floats]]:
        """Points with a mask on one fast memory, and their widths and memories."""
        dense = np.asarray(self.cases.band.is_dense)[self.place]
        index = np.flatnonzero(~dense & (self.units == 1))
        d, value_dim, fast_words = self.columns[:3, index].astype(np.float64)
        return index, (d, value_dim, fast_words)

    def _edges(self, index: Ints) -> Edges:
        """The edges of the masks of some points."""
        here = self.place[index]
        some, group, runs = take(self.cases.band, here), self.cases.group[here], self.runs[index]
        return edges_of_band(some, group * 1.0, lambda counts: _product_sum((group, counts, 0 * runs), runs)[0])

    def _again(self, index: Ints, direction: Direction, *, saved: bool) -> Ints:
        """Words of a KV head that come again, on one fast memory, at some points."""
        place = self.place[index]
        some = take(self.cases, place)
        widths, fast_words = (some.d, some.value_dim), self.columns[2, index]
        again = words_again_of_band(some.band, some.group, widths, fast_words, direction, saved=saved)
        over = words_over_periods(some.band, some.group, (*widths, fast_words), direction)
        return np.where(self.units[index] == 1, np.maximum(again, over), 0)

    def _of_table(self, direction: Direction, *, saved: bool) -> Floats:
        """What depends on counts, widths and memories alone, in rows."""
        sizes = self.widths_and_memory
        if direction is Direction.BACKWARD:
            return _table_words(self.scores, self._gradient_entries(), sizes, direction, saved=saved)
        known, floor = (self.scores, (self._summed(self.cases.band.touched_rows),), sizes), np.empty(self.scores.shape)
        small = sizes[2][:, 0] <= _SMALL * sizes[0][:, 0] ** 2
        for some in (np.flatnonzero(small), np.flatnonzero(~small)):
            if some.size:
                floor[some] = _table_words(*take(known, some), direction, saved=saved)
        return floor

    def bound(self, direction: Direction, *, saved: bool = False) -> tuple[Ints, NDArray[np.bool_]]:
        """The largest bound of a direction, and where it can be counted; ``saved``, with whatever was saved."""
        cases, place = self.cases, self.place
        own, shared = (each[place] for each in cases.compulsory(direction))
        compulsory, exact = _product_sum((cases.group[place], own, shared), self.runs)
        floor = self.rows.in_order(self._of_table(direction, saved=saved))
        if direction is not Direction.TRAINING:
            near = np.flatnonzero(floor < _MOST_AGAIN * compulsory)
            if near.size:
                shared[near] += self._again(near, direction, saved=saved)
                compulsory, exact = _product_sum((cases.group[place], own, shared), self.runs)
            floor = self._raised_at_edges(floor, compulsory, direction)
        floor = np.maximum(floor, self._at_edges(direction, saved=saved))
        countable = np.maximum(floor, compulsory) < MOST_WORDS * (1 - 1e-12)
        rounded = np.where(countable, floor, 0.0).astype(np.int64)
        return np.where(countable, np.maximum(exact, rounded), 0), countable


def _table_words(
    scores: Floats,
    counts: tuple[Floats, ...],
    widths_and_memory: tuple[Floats, Floats, Floats, Floats],
    direction: Direction,
    *,
    saved: bool,
) -> Floats:
    """The largest of many bounds; ``counts`` are entries of gradients, or rows."""
    *sizes, units = widths_and_memory
    if saved:
        floor = gradient_words(scores, *widths_and_memory)
    else:
        floor = ordinary_words(0.0, scores, *widths_and_memory, direction=direction)
    of_one = (
        (passing_sum_words,) if direction is Direction.BACKWARD else (row_sum_words, few_word_words, held_score_words)
    )
    alone = reduce(np.maximum, (words(scores, *counts, *sizes) for words in of_one))
    return np.maximum(floor, np.where(units == 1, alone, 0.0))


def _rows(codes: Ints) -> _Rows:
    """Points with equal codes in a row each; every point by itself where rows would be too unequal."""
    codes = codes.astype(np.int16) if codes.max() < 2**15 else codes  # which are sorted more quickly
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    counts, many = np.diff(starts, append=len(order)), len(order)
    longest = counts.max()
    if len(counts) * longest > _MORE * many:
        return _Rows(np.arange(many, dtype=np.int64)[:, None])
    table = np.repeat(order[starts][:, None], longest, axis=1)
    row, number = spread(counts)
    table[row, number] = order
    return _Rows(table)


def _product_sum(terms: tuple[Ints, Ints, Ints], runs: Ints) -> tuple[Floats, Ints]:
    """(a*b + c)*runs as a float, rounded once where it fits 64 bits, and as an integer, right where it fits."""
    a, b, c = terms
    rough = (a * 1.0 * b + c) * runs
    exact = (a * b + c) * runs
    return np.where(rough < MOST_WORDS * (1 - 1e-12), exact * 1.0, rough), exact
