"""A plan of attention on pages: which pages are read for whom, with which tiles, and what that moves."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from attenio.page_tree import PageTree
from attenio.paging.workload import PagedWorkload


class Part(NamedTuple):
    """Rows of these requests against the keys from ``first`` up to ``stop`` that all of them have."""

    requests: tuple[int, ...]
    first: int
    stop: int


class PagedTiles(NamedTuple):
    """Rows that stay together, and keys of a page that pass together."""

    row_tile: int
    key_tile: int


@dataclass(frozen=True, kw_only=True, eq=False)
class PagingPlan:
    """Runs of pages that are read once, then what is left of each request, and the exact words moved and needed.

    ``apart_words``: what it would move if every request read its own
    pages, with the tiles that are best then.
    """

    workload: PagedWorkload
    fast_words: int
    tree: PageTree
    tiles: PagedTiles
    moved_words: int
    peak_words: int
    apart_words: int

    @property
    def shares(self) -> bool:
        """Whether some pages are read once for several requests."""
        return not self.tree.is_flat

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Parts in the order in which they are computed; a request's last part joins what the others gave."""
        size = self.workload.page_size
        shared = [Part(run.requests, run.first * size, run.stop * size) for run in self.tree.runs]
        own = [
            Part((request,), first * size, length)
            for request, (first, length) in enumerate(zip(self.tree.own, self.workload.lengths, strict=True))
            if first * size < length
        ]
        return (*shared, *own)
