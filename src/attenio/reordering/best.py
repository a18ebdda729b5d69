"""The order that moves least, by exact count of the best plan of each."""

from importlib.util import find_spec
from math import isqrt
from typing import NamedTuple

from attenio.errors import InvalidInput
from attenio.granularity import FREE_TILES, Granularity
from attenio.machine import LARGEST_MEMORY_BYTES
from attenio.names import show_value
from attenio.planning import Dataflow, Plan, TrainingPlan, best_plan_for, published_plan_for, training_plan_for
from attenio.planning.problems import Problems
from attenio.planning.words.backward.common import passing_words, stationary_words, visiting_words
from attenio.quantities import checked_count
from attenio.reordering.reorder import Method, Reordering, reorder
from attenio.workload import Direction, Workload, checked_workload


class Reordered(NamedTuple):
    """An order and the best plan in it, which for a training step is one of two passes."""

    reordering: Reordering
    plan: Plan | TrainingPlan


def best_reordering(
    workload: Workload,
    fast_words: int,
    *,
    methods: tuple[Method, ...] | None = None,
    granularity: Granularity = FREE_TILES,
) -> Reordered:
    """The method and plan that move the fewest words; of equals the first method, and natural is the first of all.

    Without ``methods`` all are tried; Cuthill-McKee where SciPy is installed. The workload's direction says what is
    counted: attention, its gradient, or a training step, both passes of which have the same order.

    >>> import numpy as np
    >>> from attenio.masks import BlockSparse
    >>> mixed = [0, 5, 10, 3, 8, 1, 6, 11, 4, 9, 2, 7]
    >>> window = np.eye(12) + np.eye(12, k=1) + np.eye(12, k=-1)
    >>> mask = BlockSparse.from_array(window[mixed][:, mixed], query_block=16)
    >>> workload = Workload(n=192, d=8, mask=mask)
    >>> best_plan_for(workload, 1024).moved_words
    10016
    >>> found = best_reordering(workload, 1024, methods=(Method.NATURAL, Method.GREEDY, Method.CHAINED))
    >>> found.reordering.method.value, found.plan.moved_words
    ('chained', 6880)
    """
    checked_workload(workload)
    checked_count("fast_words", fast_words, most=LARGEST_MEMORY_BYTES)
    if methods is not None and not isinstance(methods, list | tuple):
        raise InvalidInput(f"methods is {show_value(methods)}; give a list, such as [Method.GREEDY]")
    best: Reordered | None = None
    for method in methods or available_methods():
        for rows, keys in tiles_to_pack(workload, fast_words):
            reordering = reorder(workload, method, rows_per_tile=rows, keys_per_tile=keys)
            plan = best_in_order(reordering.workload, fast_words, granularity)
            if best is None or plan.moved_words < best.plan.moved_words:
                best = Reordered(reordering, plan)
            if method in (Method.NATURAL, Method.CUTHILL_MCKEE):
                break  # these do not look at the tile
    assert best is not None
    return best


def best_in_order(workload: Workload, fast_words: int, granularity: Granularity = FREE_TILES) -> Plan | TrainingPlan:
    """The best plan of what the workload's direction asks about."""
    if workload.direction is Direction.TRAINING:
        return training_plan_for(workload, fast_words, granularity=granularity)
    return best_plan_for(workload, fast_words, granularity=granularity)


def tiles_to_pack(workload: Workload, fast_words: int) -> tuple[tuple[int, int], ...]:
    """Rows and keys of the tiles that orders are made for: those that fit, of one head and of a group together."""
    ways = [workload.direction]
    if workload.direction is Direction.TRAINING:
        ways = [Direction.FORWARD, Direction.BACKWARD]
    fits = [
        (rows_that_fit(workload.towards(way), fast_words), _keys_that_fit(workload, fast_words, way)) for way in ways
    ]
    pairs = [(max(1, rows // heads), keys) for rows, keys in fits for heads in (1, workload.group)]
    return tuple(dict.fromkeys(pairs))


def rows_that_fit(workload: Workload, fast_words: int) -> int:
    """The most rows that a tile of queries can have, or of scores where not one query fits with its output."""
    if workload.direction is Direction.BACKWARD:
        problems = Problems.separate(workload)
        row = passing_words(problems.sizes) + problems.intermediate_words
        rows = (fast_words - 1 - problems.d - problems.value_dim) // row
        return rows if rows >= 1 else isqrt(fast_words)
    plan = published_plan_for(workload.towards(Direction.FORWARD), fast_words, Dataflow.ATTENIO)
    return isqrt(fast_words) if plan is None else plan.tiles["query_tile"]


def _keys_that_fit(workload: Workload, fast_words: int, way: Direction) -> int:
    """The most keys that stay while rows pass; the forward pass keeps rows, and keys are packed as these are."""
    if way is Direction.FORWARD:
        return rows_that_fit(workload.towards(way), fast_words)
    sizes = Problems.separate(workload).sizes
    keys = (fast_words - visiting_words(sizes)) // (stationary_words(sizes) + sizes.intermediate_words)
    return keys if keys >= 1 else isqrt(fast_words)


def available_methods() -> tuple[Method, ...]:
    """All methods that work with what is installed."""
    return tuple(method for method in Method if method is not Method.CUTHILL_MCKEE or find_spec("scipy") is not None)
