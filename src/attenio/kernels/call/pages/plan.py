"""What is read for whom: runs of pages that requests share once, the rest of each request by itself."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from attenio.kernels.call.pages.problem import FAR, PagedProblem
from attenio.kernels.call.pages.table import PageTable
from attenio.page_tree import Integers, PageTree, PageWords, page_tree

# A partial result has a largest score and a sum beside its columns, in single precision.
STATISTICS = 2


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
    found: PagedPlan = known.plans[key]
    return found


def plan_with(problem: PagedProblem, known: PageTable, starts: Integers) -> PagedPlan:
    """The plan of a call with this table in host memory, and the first token of each request."""
    new, lengths, size = np.diff(starts), known.lengths, problem.page_size
    before = lengths - new + 1  # keys up to that of the first new token
    seen = np.minimum(lengths, before + min(problem.right, FAR))
    first = np.maximum(0, before - 1 - problem.left)
    whole = np.where((first == 0) & (new > 0), np.maximum(0, seen) // size, 0)
    tree = page_tree(known.pages, whole, np.where(new > 0, known.begun(size), 0), page_words(problem, new))
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


def page_words(problem: PagedProblem, new: Integers) -> PageWords:
    """Words of 16 bits, or of the queries where they are wider: keys of fewer bits are fractions of one, rounded up."""
    element = problem.query.dtype.itemsize
    d, width, heads = int(problem.query.shape[2]), problem.width, int(problem.query.shape[1])
    page = problem.page_size * problem.kv_heads * (d + width) * problem.key.dtype.itemsize
    row = heads * (width + STATISTICS) * 4
    return PageWords(page=-(-page // element), partial=tuple((-(-row // element) * new).tolist()))
