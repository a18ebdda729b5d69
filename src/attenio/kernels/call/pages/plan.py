"""What is read for whom: runs of pages that requests share once, the rest of each request by itself."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attenio.kernels.call.pages.problem import FAR, PagedProblem
from attenio.kernels.call.pages.table import PageTable
from attenio.page_tree import Integers, PageShape, PageTree, page_tree


class PagePart(NamedTuple):
    """Tokens against keys from ``first`` up to ``stop`` of a request; ``hides`` where a token may not see a key."""

    tokens: Integers
    request: int
    first: int
    stop: int
    hides: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class PagedPlan:
    """The tree of a call, and its parts: those of runs first."""

    tree: PageTree
    parts: tuple[PagePart, ...]


def plan_of(problem: PagedProblem) -> PagedPlan | None:
    """The plan of a call whose table is in host memory, found once for a table; None where it is on a GPU."""
    known, starts = problem.placement.known, problem.known_starts
    if known is None or starts is None:
        return None
    key = (
        "plan", problem.page_size, starts.tobytes(), problem.left, problem.right, tuple(problem.query.shape[1:]),
        problem.kv_heads, problem.width, problem.key.dtype.itemsize,
    )  # fmt: skip
    if key not in known.plans:
        known.plans[key] = plan_with(problem, known, starts)
    planned: PagedPlan = known.plans[key]
    return planned


def plan_with(problem: PagedProblem, known: PageTable, starts: Integers) -> PagedPlan:
    """The plan of a call with this table in host memory, and the first token of each request."""
    new, lengths, size = np.diff(starts), known.lengths, problem.page_size
    before = lengths - new + 1  # keys up to that of the first new token
    seen = np.minimum(lengths, before + min(problem.right, FAR))
    first = np.maximum(0, before - 1 - problem.left)
    whole = np.where((first == 0) & (new > 0), np.maximum(0, seen) // size, 0)
    tree = page_tree(known.pages, whole, np.where(new > 0, known.begun(size), 0), shape_of(problem).words(new))
    parts = [
        PagePart(
            np.concatenate([np.arange(starts[each], starts[each + 1]) for each in run.requests]), run.requests[0],
            run.first * size, run.stop * size, False,
        )
        for run in tree.runs
    ]  # fmt: skip
    for request in np.flatnonzero(new > 0).tolist():
        tokens, stop = np.arange(starts[request], starts[request + 1]), int(lengths[request])
        start = max(tree.own[request] * size, int(first[request]) // size * size)
        hides = bool(seen[request] < stop or first[request] > 0 or problem.left < FAR)
        if start < stop:
            parts.append(PagePart(tokens, request, start, stop, hides))
    return PagedPlan(tree=tree, parts=tuple(parts))


def shape_of(problem: PagedProblem) -> PageShape:
    """What the words of a call depend on, as those of ``attenio.paging``: a word is as wide as an entry of the queries.

    Keys of fewer bits are fractions of one, rounded up for a key and its value; scales and sums have 32 bits.
    """
    element, d, width = problem.query.dtype.itemsize, int(problem.query.shape[2]), problem.width
    of_32_bits = -(-4 // element)
    return PageShape(
        page_size=problem.page_size, heads=int(problem.query.shape[1]), kv_heads=problem.kv_heads, d=d, value_dim=width,
        key_words=-(-(d + width) * problem.key.dtype.itemsize // element),
        scale_words=0 if problem.scales is None else 2 * of_32_bits, accumulator_words=of_32_bits,
    )  # fmt: skip
