"""The order that moves least, by exact count of the best plan of each."""

from importlib.util import find_spec
from math import isqrt
from typing import NamedTuple

from attenio.planning import Dataflow, Plan, best_plan_for, published_plan_for
from attenio.reordering.reorder import Method, Reordering, reorder
from attenio.workload import Workload

__all__ = ["Reordered", "best_reordering", "rows_that_fit"]


class Reordered(NamedTuple):
    """An order and the best plan in it."""

    reordering: Reordering
    plan: Plan


def best_reordering(workload: Workload, fast_words: int, *, methods: tuple[Method, ...] | None = None) -> Reordered:
    """The method and plan that move the fewest words; of equals the first method, and natural is the first of all.

    Without ``methods`` all are tried; Cuthill-McKee where SciPy is installed.

    >>> import numpy as np
    >>> from attenio.masks import BlockSparse
    >>> mixed = [0, 5, 10, 3, 8, 1, 6, 11, 4, 9, 2, 7]
    >>> window = np.eye(12) + np.eye(12, k=1) + np.eye(12, k=-1)
    >>> mask = BlockSparse.from_array(window[mixed][:, mixed], query_block=16)
    >>> workload = Workload(n=192, d=8, mask=mask)
    >>> best_plan_for(workload, 1024).moved_words
    11008
    >>> found = best_reordering(workload, 1024, methods=(Method.NATURAL, Method.GREEDY, Method.CHAINED))
    >>> found.reordering.method.value, found.plan.moved_words
    ('greedy', 8192)
    """
    rows = rows_that_fit(workload, fast_words)
    best: Reordered | None = None
    for method in methods or available_methods():
        for tile in dict.fromkeys((rows, max(1, rows // workload.group))):
            found = reorder(workload, method, rows_per_tile=tile, keys_per_tile=rows)
            plan = best_plan_for(found.workload, fast_words)
            if best is None or plan.moved_words < best.plan.moved_words:
                best = Reordered(found, plan)
            if method in (Method.NATURAL, Method.CUTHILL_MCKEE):
                break  # these do not look at the tile
    assert best is not None
    return best


def rows_that_fit(workload: Workload, fast_words: int) -> int:
    """The most rows that a tile of queries can have, or of scores where not one query fits with its output."""
    plan = published_plan_for(workload, fast_words, Dataflow.ATTENIO)
    return isqrt(fast_words) if plan is None else plan.tiles["query_tile"]


def available_methods() -> tuple[Method, ...]:
    """All methods that work with what is installed."""
    return tuple(method for method in Method if method is not Method.CUTHILL_MCKEE or find_spec("scipy") is not None)
