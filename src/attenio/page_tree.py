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
    partial = np.asarray(words.partial, dtype=np.int64)
    runs: list[PageRun] = []
    # Groups of requests with equal pages before ``at``, of which those from ``first`` on are in no run yet.
    waiting = [(group, 0, 0, 0) for group in _divided(table, whole, np.arange(len(stop), dtype=np.int64), 0)]
    while waiting:
        group, first, at, depth = waiting.pop()
        end = _common(table, whole, group, at)
        if (end - first) * (len(group) - 1) * words.page > 2 * int(partial[group].sum()):
            runs.append(PageRun(requests=tuple(group.tolist()), first=first, stop=end, depth=depth))
            own[group] = end
            first, depth = end, depth + 1
        waiting += [(below, first, end, depth) for below in _divided(table, whole, group, end)]
    return PageTree(runs=tuple(runs), own=tuple(own.tolist()), stop=tuple(stop.tolist()), words=words)


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


def _common(table: Integers, whole: Integers, group: Integers, at: int) -> int:
    """The place up to which all tables of a group agree, from ``at`` on."""
    most = int(whole[group].min())
    differs = np.flatnonzero((table[group, at:most] != table[group[0], at:most]).any(0))
    return at + int(differs[0]) if len(differs) else max(at, most)


def _divided(table: Integers, whole: Integers, group: Integers, at: int) -> Iterator[Integers]:
    """Those of a group that have the same page at a place, where they are two or more; the last first."""
    group = group[whole[group] > at]
    if len(group) < 2:
        return
    order = np.argsort(table[group, at], kind="stable")
    group = group[order]
    cuts = np.flatnonzero(np.diff(table[group, at])) + 1
    first, stop = np.append(0, cuts), np.append(cuts, len(group))
    for number in np.flatnonzero(stop - first > 1)[::-1].tolist():
        yield group[first[number] : stop[number]]


def _named(run: PageRun) -> str:
    """Requests by their numbers, or how many where they are many."""
    if len(run.requests) > 8:
        return f"{len(run.requests)} requests"
    return "requests " + ", ".join(str(each) for each in run.requests)
