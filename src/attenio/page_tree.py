"""Pages of keys that requests share: the tree of their page tables, and the words that reading it moves.

A table has one row for each request: the pages that hold its keys, in order. Tables that begin with the same pages are
a tree, as of a radix sort. A run of pages that several requests read can be read once for all of them; their queries
are then rows of one product, and its partial results are merged with those of the rest. That moves less if what is not
read again is more than the partial results, which are written and read once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
# A partial result has a largest score and a sum beside its columns.
STATISTICS = 2
# Tables of groups with more entries, or of few groups, are compared group by group, those of others together, so many
# entries at once.
_FEW_LOOKS, _FEW_GROUPS, _AT_ONCE = 2**12, 8, 2**18


@dataclass(frozen=True, kw_only=True)
class PageRun:
    """Pages from the ``first`` place of a table up to ``stop`` that all of these requests have in common."""

    requests: tuple[int, ...]
    first: int
    stop: int
    depth: int

    @property
    def pages(self) -> int:
        """How many."""
        return self.stop - self.first


@dataclass(frozen=True, kw_only=True)
class PageWords:
    """Words of what is moved: keys and values of a page with their scales, and what a run costs the rows of a request.

    That is a query that is read once more, and a partial result (output, maximum, sum) out and in again; ``partial``
    is half of it.
    """

    page: int
    partial: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class PageShape:
    """What the words of pages depend on: ``key_words`` are those of a key and its value, or of a latent."""

    page_size: int
    heads: int
    kv_heads: int
    d: int
    value_dim: int
    key_words: int
    scale_words: int
    accumulator_words: int

    def words(self, new: Integers) -> PageWords:
        """The words for requests with so many new tokens each.

        >>> shape = PageShape(page_size=16, heads=4, kv_heads=2, d=8, value_dim=8, key_words=16, scale_words=0,
        ...                   accumulator_words=1)
        >>> shape.words(np.array([1, 2]))
        PageWords(page=512, partial=(56, 112))
        """
        page = self.kv_heads * (self.page_size * self.key_words + self.scale_words)
        row = self.d + 2 * (self.value_dim + STATISTICS) * self.accumulator_words
        return PageWords(page=page, partial=tuple((-(-self.heads * new * row // 2)).tolist()))


@dataclass(frozen=True, kw_only=True, eq=False)
class PageTree:
    """Runs that are read once for several requests, and the pages of each request from ``own`` up to ``stop``.

    A run stands before those below it. ``stop`` counts pages that are begun.
    """

    runs: tuple[PageRun, ...]
    own: tuple[int, ...]
    stop: tuple[int, ...]
    words: PageWords

    @property
    def is_flat(self) -> bool:
        """Whether nothing is read for several requests at once."""
        return not self.runs

    @cached_property
    def apart_words(self) -> int:
        """Words of keys and values where every request reads its own pages."""
        return sum(self.stop) * self.words.page

    @cached_property
    def key_words(self) -> int:
        """Words of keys and values where each run is read once."""
        own = sum(stop - first for first, stop in zip(self.own, self.stop, strict=True))
        return (own + sum(run.pages for run in self.runs)) * self.words.page

    @cached_property
    def partial_words(self) -> int:
        """Words that runs cost: queries read once more, partial results written, and read when they are merged."""
        return 2 * sum(self.words.partial[each] for run in self.runs for each in run.requests)

    @property
    def moved_words(self) -> int:
        """Words that this tree moves."""
        return self.key_words + self.partial_words

    def __str__(self) -> str:
        lines = [f"{'  ' * run.depth}pages {run.first}..{run.stop - 1} once for {_named(run)}" for run in self.runs]
        own = sum(stop - first for first, stop in zip(self.own, self.stop, strict=True))
        return "\n".join([*lines, f"{own:,} pages by one request each"])


def page_tree(table: Integers, whole: Integers, stop: Integers, words: PageWords) -> PageTree:
    """The tree of a table (requests, places), as far as sharing moves less.

    ``whole``: so many pages of a request are seen whole by all of its rows, and may be shared. ``stop``: so many pages
    are begun.
    """
    own = np.zeros(len(stop), dtype=np.int64)
    partial, page = np.asarray(words.partial, dtype=np.int64), words.page
    found: list[tuple[int, int, PageRun]] = []
    groups = _Groups.of_all(np.arange(len(stop), dtype=np.int64)).divided(table, whole)
    level = 0
    while groups is not None:
        groups.at = _common(table, whole, groups)
        spent = np.add.reduceat(partial[groups.requests], groups.starts)
        saved = (groups.at - groups.first) * (groups.sizes - 1)
        chosen = saved > 2 * (spent // page) + 2 * (spent % page) // page  # that is saved * page > 2 * spent
        found += groups.runs(chosen, level)
        own[groups.requests[np.repeat(chosen, groups.sizes)]] = np.repeat(groups.at[chosen], groups.sizes[chosen])
        groups.first = np.where(chosen, groups.at, groups.first)
        groups.depth = groups.depth + chosen
        groups, level = groups.divided(table, whole), level + 1
    found.sort(key=lambda run: run[:2])
    return PageTree(
        runs=tuple(run for _, _, run in found), own=tuple(own.tolist()), stop=tuple(stop.tolist()), words=words
    )


@dataclass
class _Groups:
    """Groups of requests, one after the other, each with equal pages before ``at``.

    Pages from ``first`` on are in no run yet, and ``depth`` runs are before them. ``place`` orders groups: those below
    one lie between it and the next.
    """

    requests: Integers
    starts: Integers
    sizes: Integers
    at: Integers
    first: Integers
    depth: Integers
    place: Integers

    @classmethod
    def of_all(cls, requests: Integers) -> "_Groups":
        """One group."""
        nothing = np.zeros(1, dtype=np.int64)
        return cls(requests, nothing, nothing + len(requests), nothing, nothing, nothing, nothing)

    def divided(self, table: Integers, whole: Integers) -> "_Groups | None":
        """Those that have the same page at ``at`` too, where they are two or more; None if there are none."""
        of = self.starts.searchsorted(np.arange(len(self.requests), dtype=np.int64), side="right") - 1
        going_on = whole[self.requests] > self.at[of]
        requests, of = self.requests[going_on], of[going_on]
        if len(requests) < 2:
            return None
        pages = table[requests, self.at[of]]
        order = np.lexsort((pages, of))
        requests, of, pages = requests[order], of[order], pages[order]
        other = np.ones(len(requests) + 1, dtype=np.bool_)
        other[1:-1] = (of[1:] != of[:-1]) | (pages[1:] != pages[:-1])
        edges = other.nonzero()[0]
        begins, sizes = edges[:-1], edges[1:] - edges[:-1]
        several = sizes > 1
        if not several.any():
            return None
        above, begins, kept = of[begins[several]], begins[several], several.repeat(sizes)
        sizes = sizes[several]
        before = begins - of.searchsorted(above)  # requests of the same group that come first
        starts = sizes.cumsum() - sizes
        fields = self.at[above], self.first[above], self.depth[above], self.place[above] + before
        return _Groups(requests[kept], starts, sizes, *fields)

    def runs(self, chosen: NDArray[np.bool_], level: int) -> Iterator[tuple[int, int, PageRun]]:
        """The runs of chosen groups, each behind what puts it before those below it."""
        requests = self.requests.tolist()
        each = (self.starts, self.starts + self.sizes, self.first, self.at, self.depth, self.place)
        for start, stop, first, at, depth, place in zip(*(values[chosen].tolist() for values in each), strict=True):
            yield place, level, PageRun(requests=tuple(requests[start:stop]), first=first, stop=at, depth=depth)


def misplaced_page(table: Integers, stop: Integers) -> tuple[int, tuple[int, int], tuple[int, int]] | None:
    """A page that stands at two places of tables, with (request, place) of both: two owners would write to it."""
    requests, places = np.nonzero(np.arange(table.shape[1], dtype=np.int64) < stop[:, None])
    pages = table[requests, places]
    order = np.lexsort((places, pages))
    pages, requests, places = pages[order], requests[order], places[order]
    wrong = np.flatnonzero((pages[1:] == pages[:-1]) & (places[1:] != places[:-1]))
    if not len(wrong):
        return None
    at = int(wrong[0])
    one, other = ((int(requests[k]), int(places[k])) for k in (at, at + 1))
    return int(pages[at]), one, other


def _common(table: Integers, whole: Integers, groups: _Groups) -> Integers:
    """The places up to which all tables of each group agree, from ``at`` on."""
    most = np.maximum(groups.at, np.minimum.reduceat(whole[groups.requests], groups.starts))
    looks, end = groups.sizes * (most - groups.at), most.copy()
    few = looks <= (_FEW_LOOKS if len(looks) > _FEW_GROUPS else 0)
    for number in np.flatnonzero(~few).tolist():
        start, at = int(groups.starts[number]), int(groups.at[number])
        group = groups.requests[start : start + int(groups.sizes[number])]
        differs = np.flatnonzero((table[group, at : most[number]] != table[group[0], at : most[number]]).any(0))
        end[number] = at + differs[0] if len(differs) else most[number]
    numbers = np.flatnonzero(few & (looks > 0))
    if not len(numbers):
        return end
    edges = np.flatnonzero(np.diff(np.cumsum(looks[numbers]) // _AT_ONCE)) + 1
    for part in np.split(numbers, edges):
        _narrow(end, table, groups, part)
    return end


def _narrow(end: Integers, table: Integers, groups: _Groups, numbers: Integers) -> None:
    """Bring the ends of these groups to the first place at which their tables differ, if there is one before."""
    sizes, widths = groups.sizes[numbers], end[numbers] - groups.at[numbers]
    looks = sizes * widths
    of = np.repeat(np.arange(len(numbers), dtype=np.int64), looks)
    inside = np.arange(len(of), dtype=np.int64) - np.repeat(np.cumsum(looks) - looks, looks)
    place = groups.at[numbers][of] + inside % widths[of]
    start = groups.starts[numbers][of]
    differs = table[groups.requests[start + inside // widths[of]], place] != table[groups.requests[start], place]
    np.minimum.at(end, numbers[of[differs]], place[differs])


def _named(run: PageRun) -> str:
    """Requests by their numbers, or how many where they are many."""
    if len(run.requests) > 8:
        return f"{len(run.requests)} requests"
    return "requests " + ", ".join(str(each) for each in run.requests)
