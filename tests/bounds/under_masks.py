"""Workloads under windows and causal masks and their plans, for bounds that count the edges of the mask."""

from contextlib import suppress

import numpy as np
from hypothesis import strategies as st

from attenio.bounds import bounds_for
from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for, training_plan_for
from attenio.workload import Direction, Workload

__all__ = ["depths", "masked", "moves_no_less", "required_pairs", "windowed"]


@st.composite
def masked(draw: st.DrawFn) -> Workload:
    """Small workloads under a causal mask or a window."""
    queries, keys = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    mask = draw(st.one_of(st.just("causal"), st.integers(1, min(keys, 30)).map(lambda width: f"window:{width}")))
    group = draw(st.integers(1, 3))
    heads, batch = group * draw(st.integers(1, 2)), draw(st.integers(1, 2))
    return Workload(queries=queries, keys=keys, d=2, heads=heads, kv_heads=heads // group, batch=batch, mask=mask)


def required_pairs(workload: Workload) -> "np.ndarray[tuple[int, int], np.dtype[np.bool_]]":
    """Required pairs of all rows of all heads and all keys, those of different KV heads and sequences included."""
    ((pattern, _),) = workload.separate_patterns
    one = pattern.required(0, pattern.rows, np.arange(pattern.keys, dtype=np.int64))
    alone = np.tile(one, (workload.group, 1))
    return np.kron(np.eye(workload.batch * workload.kv_heads, dtype=np.int64), alone).astype(np.bool_)


def depths(workload: Workload) -> tuple["np.ndarray[tuple[int, int], np.dtype[np.int64]]", ...]:
    """How many keys a row needs before and after a key, counted from the mask of a far longer sequence."""
    ((band, _),) = workload.separate_patterns
    rows, keys = np.arange(band.rows), np.arange(band.keys)
    after, before = (
        np.add.outer(rows + band.shift + band.right, -keys),
        np.add.outer(-rows - band.shift + band.left, keys),
    )
    problems = workload.batch * workload.kv_heads
    return tuple(np.tile(each, (problems * workload.group, problems)) for each in (before, after))


@st.composite
def windowed(draw: st.DrawFn, *, shortest: float, longest: float) -> Workload:
    """Heads that share keys or not, under windows between these powers of two of the rows, or causal beyond all."""
    n = draw(st.integers(2, 600))
    window = max(1, round(n * 2.0 ** draw(st.floats(shortest, longest))))
    return Workload(
        n=n,
        d=draw(st.sampled_from([1, 2, 3, 8])),
        value_dim=draw(st.sampled_from([1, 2, 5])),
        heads=draw(st.sampled_from([1, 4])),
        kv_heads=1,
        mask="causal" if window >= n else f"window:{window}",
        direction=draw(st.sampled_from(["forward", "backward", "training"])),
    )


def moves_no_less(workload: Workload, fast_words: int, *theorems: str) -> None:
    """The best plan, where there is one, moves no fewer words than these theorems say, alone or in a step in order."""
    named = (*theorems, "step-in-order")
    found = [bound.words for bound in bounds_for(workload, fast_words) if bound.theorem in named]
    plan = training_plan_for if workload.direction is Direction.TRAINING else best_plan_for
    with suppress(DoesNotFit):
        assert max(found, default=0) <= plan(workload, fast_words).moved_words
