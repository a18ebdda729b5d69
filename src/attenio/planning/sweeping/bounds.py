"""The largest bound for ordinary products of many points at once, as ``largest_ordinary(lower_bounds(...))`` has it."""

from collections.abc import Iterator
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from attenio.bounds import ordinary_words
from attenio.bounds.backward import gradient_words, passing_sum_words, words_in_order
from attenio.bounds.few_words import few_word_words
from attenio.bounds.held_scores import held_score_words, held_words_at_edges
from attenio.bounds.mask_edges import Edges, may_be_ahead, most_at_edges, raised_at_edges
from attenio.bounds.row_sums import row_sum_words
from attenio.bounds.short_periods import words_over_periods
from attenio.bounds.single_stays import words_again_of_band
from attenio.bounds.tiles_at_edges import may_be_ahead_in_small, words_at_edges
from attenio.planning.sweeping.cases import Cases, Ints, batches, spread, take
from attenio.planning.sweeping.points import Points
from attenio.workload import Direction

MOST_WORDS = 2**63 - 1
# Points whose bounds are found together: more would not stay in the caches of a core.
_TOGETHER, _AT_EDGES = 2**13, 2**12
# As many numbers more than there are points, so that points of equal machines and widths may lie in rows.
_MORE = 1.5
# Words that come again are fewer than the compulsory ones: docs/theory/single_stays.md.
_MOST_AGAIN = 2

Floats = NDArray[np.float64]


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
        self.columns, self.sizes = columns, columns.astype(np.float64)
        d, _, inside, _ = self.sizes
        self.tables = list(_tables(points.codes(index, ("d", "value_dim", "dtypes", "machines")), inside / (d * d)))

    def _summed(self, counts: Ints) -> Floats:
        """Counts of all heads and runs."""
        return _product_sum((self.cases.group[self.place], counts[self.place], 0 * self.runs), self.runs)[0]

    @cached_property
    def _scores(self) -> Floats:
        return self._summed(self.cases.band.scores)

    def _gradient_entries(self) -> tuple[Floats, Floats]:
        """Entries of dQ, and of dK and dV, of all heads and runs, as ``Workload.gradient_words`` has them."""
        cases, place = self.cases, self.place
        own, shared = cases.rows * cases.d, cases.keys * (cases.d + cases.value_dim)
        of_keys, _ = _product_sum((cases.group[place], 0 * self.runs, shared[place]), self.runs)
        return self._summed(own), of_keys

    def _raised_at_edges(self, floor: Floats, compulsory: Floats, direction: Direction) -> Floats:
        """A floor under words, and the bound of the edges of masks where it is above both this and compulsory words."""
        index, sizes = self._masked
        near = np.flatnonzero(may_be_ahead(take(self.cases.band, self.place[index]), sizes, direction))
        if not near.size:
            return floor
        index, sizes = index[near], take(sizes, near)
        known, edges = np.maximum(floor[index], compulsory[index]), self._edges(index)
        words = known.copy()
        for sums in (True, False) if direction is Direction.FORWARD else (False,):
            ahead = np.flatnonzero(most_at_edges(edges, sizes, direction, sums=sums) > words)
            for some in np.array_split(ahead, -(-len(ahead) // _AT_EDGES)) if ahead.size else ():
                of_some = words[some], self._edges(index[some]), take(sizes, some)
                words[some] = raised_at_edges(*of_some, direction, sums=sums)
        raised = floor.copy()
        raised[index] = np.where(words > known, words, floor[index])
        return raised

    def _at_edges(self, direction: Direction, *, saved: bool) -> Floats:
        """Those of tiles at edges in small memories; a step makes what both of its passes make."""
        least_words, (index, sizes) = np.zeros(len(self.place)), self._masked
        passes = [each for each in (Direction.FORWARD, Direction.BACKWARD) if direction in (each, Direction.TRAINING)]
        for each in passes:
            near = np.flatnonzero(may_be_ahead_in_small(sizes, each))
            if near.size:
                edges, of_some = self._edges(index[near]), take(sizes, near)
                words = words_at_edges(edges, of_some, each, saved=saved)
                if each is Direction.FORWARD:
                    words = np.maximum(words, held_words_at_edges(edges, of_some))
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
        return Edges(some, group * 1.0, lambda counts: _product_sum((group, counts, 0 * runs), runs)[0])

    def _again(self, index: Ints, direction: Direction, *, saved: bool) -> Ints:
        """Words of a KV head that come again, on one fast memory, at some points."""
        place = self.place[index]
        some = take(self.cases, place)
        widths, fast_words = (some.d, some.value_dim), self.columns[2, index]
        again = words_again_of_band(some.band, some.group, widths, fast_words, direction, saved=saved)
        over = words_over_periods(some.band, some.group, (*widths, fast_words), direction)
        return np.where(self.units[index] == 1, np.maximum(again, over), 0)

    def _of_counts(self, direction: Direction, *, saved: bool) -> Floats:
        """What depends on counts, widths and memories alone."""
        words = np.empty(len(self.place))
        backward = direction is Direction.BACKWARD
        of_rows = self._gradient_entries() if backward else (self._summed(self.cases.band.touched_rows),)
        for table in self.tables:
            counts = tuple(each[table] for each in (self._scores, *of_rows))
            words[table] = _words_of_table(counts, tuple(self.sizes[:, table[:, :1]]), direction, saved=saved)
        return words

    def bound(self, direction: Direction, *, saved: bool = False) -> tuple[Ints, NDArray[np.bool_]]:
        """The largest bound of a direction, and where it can be counted; ``saved``, with whatever was saved."""
        cases, place = self.cases, self.place
        own, shared = (each[place] for each in cases.compulsory(direction))
        compulsory, exact = _product_sum((cases.group[place], own, shared), self.runs)
        floor = self._of_counts(direction, saved=saved)
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


def _words_of_table(
    counts: tuple[Floats, ...], sizes: tuple[Floats, ...], direction: Direction, *, saved: bool
) -> Floats:
    """The largest of many bounds; ``counts`` are scores and rows, or gradient entries, ``sizes`` d, dv, M, units."""
    ways = (
        (passing_sum_words,) if direction is Direction.BACKWARD else (row_sum_words, few_word_words, held_score_words)
    )
    alone = reduce(np.maximum, (words(*counts, *sizes[:3]) for words in ways))
    of_any = gradient_words(counts[0], *sizes) if saved else ordinary_words(0.0, counts[0], *sizes, direction=direction)
    return np.maximum(of_any, np.where(sizes[3] == 1, alone, 0.0))


def _tables(codes: Ints, memory: Floats) -> Iterator[Ints]:
    """Points in tables, rows of which have equal codes: much of a bound depends on these alone, and is found once.

    A row that is shorter than others has its first point again; where many are, every point has a row. Rows with as
    many points follow each other, then those with as much ``memory``: some bounds say nothing where that is large.
    """
    codes = codes.astype(np.int16) if codes.max() < 2**15 else codes  # which are sorted more quickly
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    counts = np.diff(starts, append=len(order))
    alike = np.lexsort((memory[order[starts]], -counts))
    starts, counts = starts[alike], counts[alike]
    for some in batches(counts, _TOGETHER):
        begin, count = starts[some], counts[some]
        row, number = spread(count)
        index, longest = order[begin[row] + number], count.max()
        if len(count) * longest > _MORE * len(index):
            yield index[:, None]
            continue
        table = np.repeat(order[begin][:, None], longest, axis=1)
        table[row, number] = index
        yield table


def _product_sum(terms: tuple[Ints, Ints, Ints], runs: Ints) -> tuple[Floats, Ints]:
    """(a*b + c)*runs as a float, rounded once where it fits 64 bits, and as an integer, right where it fits."""
    a, b, c = terms
    rough = (a * 1.0 * b + c) * runs
    exact = (a * b + c) * runs
    return np.where(rough < MOST_WORDS * (1 - 1e-12), exact * 1.0, rough), exact
