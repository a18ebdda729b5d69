"""No backward schedule beats a bound; what the bounds of all directions have in common."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attenio.bounds import Strength, bounds_for, largest_ordinary, ordinary_words
from attenio.workload import Direction, Workload

from .schedules import SCHEDULES, Shape

laws = settings(max_examples=26, deadline=None, derandomize=True)
# For a law that draws shapes for every schedule by itself.
laws_of_each = settings(laws, max_examples=17)
directions = st.sampled_from(list(Direction))


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Sizes on a logarithmic scale, fast memory from a few words to everything, often near d squared."""
    n, m = (int(2 ** draw(st.floats(0, 18))) for _ in range(2))
    d, dv = (int(2 ** draw(st.floats(0, 9))) for _ in range(2))
    if draw(st.booleans()):
        m, dv = n, d
    fast = int(2 ** draw(st.floats(2, 30))) if draw(st.booleans()) else int(d * d * 2 ** draw(st.floats(-4, 6)))
    causal = n == m and draw(st.booleans())
    return Shape(n=n, m=m, d=d, dv=dv, fast=max(4, fast), causal=causal)


def workload_of(shape: Shape, direction: str | Direction) -> Workload:
    mask = "causal" if shape.causal else "dense"
    return Workload(
        queries=shape.n, keys=shape.m, d=shape.d, value_dim=shape.dv, mask=mask, direction=direction, dtype="fp16"
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
@laws_of_each
@given(shape=shapes())
def test_no_schedule_beats_an_absolute_bound(schedule: Callable[[Shape], int | None], shape: Shape) -> None:
    moved = schedule(shape)
    assume(moved is not None)
    bounds = bounds_for(workload_of(shape, "backward"), shape.fast)
    assert largest_ordinary(bounds).words <= moved


@pytest.mark.parametrize("schedule", SCHEDULES)
@laws_of_each
@given(shape=shapes())
def test_a_forward_pass_and_then_a_backward_one_do_not_beat_a_step(
    schedule: Callable[[Shape], int | None], shape: Shape
) -> None:
    moved = schedule(shape)
    a = min(shape.n, (shape.fast - max(shape.d, shape.dv)) // (shape.d + shape.dv + 4))
    assume(moved is not None and a >= 1)
    forward = shape.n * (shape.d + shape.dv) + shape.keys_by_rows(a) * (shape.d + shape.dv)
    bounds = bounds_for(workload_of(shape, "training"), shape.fast)
    assert largest_ordinary(bounds).words <= moved + forward + shape.n


@laws
@given(shapes(), directions, st.integers(1, 2**24))
def test_a_larger_fast_memory_never_raises_a_gradient_bound(shape: Shape, direction: Direction, more: int) -> None:
    workload = workload_of(shape, direction)
    mine, larger = (
        {bound.theorem: bound.words for bound in bounds_for(workload, fast)} for fast in (shape.fast, shape.fast + more)
    )
    for theorem in ("compulsory", "gradient-rows", "li-liang", "nonzeros"):
        assert larger.get(theorem, 0) <= mine.get(theorem, 0)


@laws
@given(shapes(), st.sampled_from((Direction.BACKWARD, Direction.TRAINING)), st.integers(1, 10**9))
def test_more_scores_never_lower_it(shape: Shape, direction: Direction, more: int) -> None:
    scores = float(shape.scores)
    d, dv, fast = float(shape.d), float(shape.dv), float(shape.fast)
    fewer, many = (ordinary_words(0.0, z, d, dv, fast, direction=direction) for z in (scores, scores + more))
    assert fewer <= many


@laws
@given(shapes(), directions, st.integers(1, 4), st.integers(1, 4), st.integers(1, 200))
def test_the_array_form_gives_the_same_numbers(
    shape: Shape, direction: Direction, kv_heads: int, group: int, units: int
) -> None:
    workload = Workload(
        queries=shape.n,
        keys=shape.m,
        d=shape.d,
        value_dim=shape.dv,
        heads=kv_heads * group,
        kv_heads=kv_heads,
        mask="causal",
        direction=direction,
    )
    counts = (workload.compulsory_words, workload.scores, shape.d, shape.dv, shape.fast, units)
    least, scores, d, dv, fast, many = (np.array([value, value], dtype=float) for value in counts)
    array = ordinary_words(least, scores, d, dv, fast, many, direction=direction)
    alone = ordinary_words(least[0], scores[0], d[0], dv[0], fast[0], many[0], direction=direction)
    every = bounds_for(workload, shape.fast, units=units)
    of_rows = ("row-sums", "few-words", "held-scores")
    of_stays = ("single-stays", "single-gradient-stays", "short-periods", "short-gradient-periods")
    counted_apart = (*of_rows, *of_stays, "step-in-order", "passing-sums")
    expected = largest_ordinary(bound for bound in every if bound.theorem not in counted_apart).words
    assert array.tolist() == [expected, expected]
    assert float(alone) == expected


@laws
@given(shapes())
def test_a_step_is_never_below_either_of_its_passes(shape: Shape) -> None:
    words = {
        direction: largest_ordinary(bounds_for(workload_of(shape, direction), shape.fast)).words
        for direction in Direction
    }
    assert words[Direction.TRAINING] >= max(words[Direction.FORWARD], words[Direction.BACKWARD])


@laws
@given(shapes(), st.sampled_from((Direction.BACKWARD, Direction.TRAINING)), st.integers(1, 200))
def test_every_bound_has_a_page_a_source_and_its_assumptions(shape: Shape, direction: Direction, units: int) -> None:
    root = Path(__file__).parents[3]
    for bound in bounds_for(workload_of(shape, direction), shape.fast, units=units):
        assert (root / bound.page).is_file()
        assert bound.citation
        assert bound.assumptions
        assert bound.regime
        if bound.strength in (Strength.ABSOLUTE, Strength.ORDINARY) and bound.theorem != "compulsory" and units > 1:
            assert "units exchange words through slow memory only" in bound.assumptions


@laws
@given(shapes(), st.sampled_from((Direction.BACKWARD, Direction.TRAINING)), st.integers(1, 6), st.integers(1, 5))
def test_pooled_heads_are_no_weaker_than_heads_one_by_one(
    shape: Shape, direction: Direction, heads: int, batch: int
) -> None:
    workloads = (
        Workload(queries=shape.n, keys=shape.m, d=shape.d, value_dim=shape.dv, heads=h, batch=b, direction=direction)
        for h, b in ((1, 1), (heads, batch))
    )
    # these add a fast memory once, for all heads
    alone, together = (
        largest_ordinary(
            bound
            for bound in bounds_for(each, shape.fast)
            if bound.theorem != "fused-epochs"
            and bound.theorem.partition("-")[0] not in ("whole", "five", "recomputed", "passing", "step")
        )
        for each in workloads
    )
    assert together.words >= (alone.words - 1) * heads * batch * (1 - 1e-11)


def test_the_words_of_both_passes_do_not_add_up_when_everything_fits() -> None:
    """A step of 8nd words beats the sum of its passes, 4nd + 7nd: fast memory carries inputs across."""
    forward, backward, step = (
        largest_ordinary(bounds_for(Workload(n=64, d=8, direction=direction), 2**20)).words for direction in Direction
    )
    assert (forward, backward, step) == (4 * 64 * 8, 7 * 64 * 8, 8 * 64 * 8)


def test_the_gap_to_two_passes_is_a_thirteenth_and_inputs_for_large_fast_memory() -> None:
    shape = Shape(n=2**20, m=2**20, d=64, dv=64, fast=2**22, causal=False)
    moved = SCHEDULES[2](shape)
    assert moved is not None
    bound = largest_ordinary(bounds_for(workload_of(shape, "backward"), shape.fast))
    assert bound.theorem == "passing-sums"
    assert 1.07 < moved / bound.words < 1.22


# What may be said of the second part of a step in order, which may find probabilities and begins with a full memory.
SECOND = (
    "compulsory",
    "gradient-rows",
    "fused-gradient-epochs",
    "whole-gradient-epochs",
    "passing-sums",
    "gradient-mask-edges",
    "gradient-tiles-at-edges",
    "short-gradient-periods",
    "single-gradient-stays",
)


@laws
@given(shapes(), st.integers(1, 4))
def test_a_step_in_order_pays_for_both_passes_less_what_fast_memory_keeps(shape: Shape, units: int) -> None:
    every = {b.theorem: b.words for b in bounds_for(workload_of(shape, "training"), shape.fast, units=units)}
    alone = bounds_for(workload_of(shape, "backward"), shape.fast, units=units, probabilities_saved=True)
    second = max(bound.words for bound in alone if bound.theorem in SECOND) - units * shape.fast
    first = largest_ordinary(bounds_for(workload_of(shape, "forward"), shape.fast, units=units)).words
    assert every["step-in-order"] == first + max(second, 0)
