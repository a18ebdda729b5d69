"""The plan on pages that moves the fewest words: shared pages read once, or every request by itself.

>>> workload = PagedWorkload.of_levels(((256, 16),), own=16, page_size=16, d=8, heads=4)
>>> plan_pages(workload, 4096).shares, plan_pages(PagedWorkload(lengths=(272,) * 16, page_size=16, d=8), 4096).shares
(True, False)
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attenio.errors import DoesNotFit
from attenio.page_tree import PageTree, page_tree
from attenio.paging.plan import PagedTiles, PagingPlan
from attenio.paging.words import PartKind, kinds_of, moved_words, peak_words
from attenio.paging.workload import PagedWorkload, checked_paged_workload
from attenio.quantities import checked_count, show_words


def plan_pages(workload: PagedWorkload, fast_words: int, *, shares: bool | None = None) -> PagingPlan:
    """The best plan for a fast memory of this many words; ``shares`` asks for one of the two ways."""
    checked_paged_workload(workload)
    checked_count("fast memory (words)", fast_words, most=2**60)
    tree = _tree(workload)
    flat = replace(tree, runs=(), own=(0,) * len(tree.own))
    apart = _plan(workload, flat, fast_words)
    if shares is False or (shares is None and tree.is_flat):
        return apart
    together = replace(_plan(workload, tree, fast_words), apart_words=apart.apart_words)
    return apart if shares is None and apart.moved_words <= together.moved_words else together


def _tree(workload: PagedWorkload) -> PageTree:
    """Runs whose pages are more than what their rows cost: queries once more, and partial results out and in again."""
    new = np.asarray(workload.new, dtype=np.int64)
    whole = (np.asarray(workload.lengths, dtype=np.int64) - new + 1) // workload.page_size
    return page_tree(workload.places, whole, workload.begun, workload.shape.words(new))


def _plan(workload: PagedWorkload, tree: PageTree, fast_words: int) -> PagingPlan:
    kinds = kinds_of(workload, tree)
    tiles = _tiles(workload, kinds, fast_words)
    moved = moved_words(workload, kinds, tiles)
    return PagingPlan(
        workload=workload, fast_words=fast_words, tree=tree, tiles=tiles, moved_words=moved,
        peak_words=peak_words(workload, kinds, tiles), apart_words=moved,
    )  # fmt: skip


def _tiles(workload: PagedWorkload, kinds: tuple[PartKind, ...], fast_words: int) -> PagedTiles:
    """The most rows, which read keys least often, with one key beside them; then the most keys of a page."""

    def fits(rows: int, keys: int) -> bool:
        return peak_words(workload, kinds, PagedTiles(rows, keys)) <= fast_words

    if not fits(1, 1):
        least = peak_words(workload, kinds, PagedTiles(1, 1))
        raise DoesNotFit(
            f"one row and one key on pages need {show_words(least)} of fast memory, and there are {fast_words:,};"
            " use a larger fast memory"
        )
    rows = _largest(lambda rows: fits(rows, 1), max(kind.rows for kind in kinds))
    return PagedTiles(rows, _largest(lambda keys: fits(rows, keys), workload.page_size))


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest number up to ``most`` that fits; 1 does."""
    low, high = 1, most
    while low < high:
        middle = -(-(low + high) // 2)
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
