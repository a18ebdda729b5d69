"""No schedule beats a bound. The counts here are written out by hand, apart from the planner's own closed forms."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attenio.bounds import Strength, bounds_for, largest_absolute, largest_ordinary, lower_bounds, ordinary_words
from attenio.bounds.fast_products import fast_products
from attenio.bounds.one_shot import one_shot
from attenio.bounds.operators import operator_by_operator
from attenio.bounds.score_epochs import score_epochs
from attenio.errors import InvalidInput
from attenio.fast_products.shape import Shape as ProductShape
from attenio.fast_products.words import best_strassen_words
from attenio.machine import Machine, MemoryLevel
from attenio.workload import Workload

PROVEN = (Strength.ABSOLUTE, Strength.ORDINARY)
laws = settings(max_examples=26, deadline=None, derandomize=True)
# For a law that draws shapes for every schedule by itself.
laws_of_each = settings(laws, max_examples=17)

Shape = tuple[int, int, int, int, int]  # rows, keys, d, dv, fast words


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Sizes on a logarithmic scale, with fast memory anywhere from a few words to everything, often near d squared."""
    n, m = (int(2 ** draw(st.floats(0, 20))) for _ in range(2))
    d, dv = (int(2 ** draw(st.floats(0, 9))) for _ in range(2))
    if draw(st.booleans()):
        m, dv = n, d
    fast_words = int(2 ** draw(st.floats(2, 32))) if draw(st.booleans()) else int(d * d * 2 ** draw(st.floats(-4, 5)))
    return n, m, d, dv, max(4, fast_words)


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def rows_stay(shape: Shape) -> int | None:
    n, m, d, dv, fast = shape
    a = min(n, (fast - max(d, dv)) // (d + dv + 4))
    return n * (d + dv) + ceil(n, a) * m * (d + dv) if a >= 1 else None


def rows_stay_in_an_ideal_memory(shape: Shape) -> int | None:
    """No room for largest scores, scores or the passing key: not even legal, and still above the bounds."""
    n, m, d, dv, fast = shape
    a = min(n, fast // (d + dv + 1))
    return n * (d + dv) + ceil(n, a) * m * (d + dv) if a >= 1 else None


def rows_stay_for_a_few_value_columns(shape: Shape) -> int | None:
    """Scores are recomputed for every group of value columns: the best known order when values are wide."""
    n, m, d, dv, fast = shape
    columns = min(d, dv)
    a = min(n, (fast - d) // (d + columns + 4))
    return ceil(dv, columns) * (n * d + ceil(n, a) * m * d) + ceil(n, a) * m * dv + n * dv if a >= 1 else None


def keys_stay(shape: Shape) -> int | None:
    n, m, d, dv, fast = shape
    b = min(m, (fast - d - dv - 3) // (d + dv + 1))
    if b < 1:
        return None
    return m * (d + dv) + n * ceil(m, b) * d + 2 * n * (ceil(m, b) - 1) * (dv + 2) + n * dv


def everything_stays(shape: Shape) -> int | None:
    n, m, d, dv, fast = shape
    return (n + m) * (d + dv) if (n + m) * (d + dv) + 4 <= fast else None


def _tiles(fast: int) -> list[int]:
    return sorted({max(1, int(fast**0.5 * 2 ** (step / 4))) for step in range(-16, 13)})


def rank_one_tiles(shape: Shape) -> int | None:
    n, m, d, dv, fast = shape
    first = [
        n * ceil(m, b) * d + ceil(n, a) * m * d
        for a in (min(n, tile) for tile in _tiles(fast))
        if (b := min(m, (fast - 4 * a - 1) // a)) >= 1
    ]
    last = [
        n * m * ceil(dv, c) + ceil(n, p) * m * dv + n * dv
        for c in (min(dv, tile) for tile in _tiles(fast))
        if (p := min(n, (fast - 1) // (c + 2))) >= 1
    ]
    return min(first) + n * m + 2 * n + min(last) if first and last else None


def scores_stay(shape: Shape) -> int | None:
    n, m, d, dv, fast = shape
    words = [
        n * ceil(m, b) * d + ceil(n, a) * m * (d + dv) + 2 * dv * n * (ceil(m, b) - 1) + n * dv
        for a in (min(n, tile) for tile in _tiles(fast))
        if (b := min(m, (fast - 5 * a - 1) // a)) >= 1
    ]
    return min(words) if words else None


def three_operators(shape: Shape) -> int | None:
    n, m, d, dv, fast = shape
    first = [
        n * ceil(m, b) * d + ceil(n, a) * m * d + n * m
        for a in (min(n, tile) for tile in _tiles(fast))
        if (b := min(m, (fast - a - 1) // a)) >= 1
    ]
    last = [
        n * m * ceil(dv, c) + ceil(n, p) * m * dv + n * dv
        for c in (min(dv, tile) for tile in _tiles(fast))
        if (p := min(n, (fast - 1) // (c + 1))) >= 1
    ]
    kept = min(m, fast - 3)
    return min(first) + n * (3 * m - kept) + min(last) if first and last else None


once: list[Callable[[Shape], int | None]] = [
    rows_stay,
    rows_stay_in_an_ideal_memory,
    keys_stay,
    everything_stays,
    rank_one_tiles,
    scores_stay,
    three_operators,
]


@pytest.mark.parametrize("schedule", [*once, rows_stay_for_a_few_value_columns])
@laws_of_each
@given(shape=shapes())
def test_no_schedule_beats_a_bound_for_ordinary_products(schedule: Callable[[Shape], int | None], shape: Shape) -> None:
    moved = schedule(shape)
    assume(moved is not None)
    n, m, d, dv, fast_words = shape
    bounds = bounds_for(Workload(queries=n, keys=m, d=d, value_dim=dv), fast_words)
    assert largest_ordinary(bounds).words <= moved


@pytest.mark.parametrize("schedule", once)
@laws_of_each
@given(shape=shapes())
def test_no_schedule_without_recomputation_beats_one_shot(
    schedule: Callable[[Shape], int | None], shape: Shape
) -> None:
    moved = schedule(shape)
    assume(moved is not None)
    n, m, d, dv, fast_words = shape
    assert one_shot(Workload(queries=n, keys=m, d=d, value_dim=dv), fast_words).words <= moved


@laws
@given(shapes())
def test_three_operators_do_not_beat_their_own_bound(shape: Shape) -> None:
    moved = three_operators(shape)
    assume(moved is not None)
    n, m, d, dv, fast_words = shape
    assert operator_by_operator(Workload(queries=n, keys=m, d=d, value_dim=dv), fast_words).words <= moved


@laws
@given(shapes(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 200))
def test_the_array_form_gives_the_same_numbers(shape: Shape, kv_heads: int, group: int, units: int) -> None:
    n, m, d, dv, fast_words = shape
    workload = Workload(queries=n, keys=m, d=d, value_dim=dv, heads=kv_heads * group, kv_heads=kv_heads, mask="causal")
    columns = [float(workload.compulsory_words), float(workload.scores), float(d), float(dv), float(fast_words)]
    array = ordinary_words(*(np.array([value, value]) for value in columns), float(units))
    every = bounds_for(workload, fast_words, units=units)
    counted_apart = ("row-sums", "single-stays", "short-periods", "few-words", "held-scores")
    expected = largest_ordinary(bound for bound in every if bound.theorem not in counted_apart).words
    assert array.tolist() == [expected, expected]
    assert float(ordinary_words(*columns, float(units))) == expected


@laws
@given(shapes(), st.integers(1, 6), st.integers(1, 5))
def test_pooled_heads_are_no_weaker_than_heads_one_by_one(shape: Shape, heads: int, batch: int) -> None:
    n, m, d, dv, fast_words = shape
    adding_once = ("whole-epochs", "row-sums", "fused-epochs", "recomputed-scores")  # a fast memory, for all heads
    whole = bounds_for(Workload(queries=n, keys=m, d=d, value_dim=dv, heads=heads, batch=batch), fast_words)
    head = bounds_for(Workload(queries=n, keys=m, d=d, value_dim=dv), fast_words)
    for together, alone in zip(whole, head, strict=True):
        if alone.theorem in adding_once:
            continue
        # A head's bound is a sum of at most two parts, each rounded up to a word: that is all pooling can lose.
        assert together.words >= (alone.words - 2) * heads * batch * (1 - 1e-11)


@laws
@given(shapes())
def test_a_mask_counts_through_its_required_scores_alone_but_for_its_edges_rows_and_keys(shape: Shape) -> None:
    n, _, d, dv, fast_words = shape
    masked = bounds_for(Workload(n=n, d=d, value_dim=dv, mask="causal"), fast_words)
    scores = n * (n + 1) // 2
    same = ordinary_words(0.0, float(scores), float(d), float(dv), float(fast_words))
    of_stays = ("single-stays", "short-periods")
    of_edges = ("mask-edges", "mask-edges-and-sums", "tiles-at-edges")
    others = (*of_stays, *of_edges, "compulsory", "row-sums", "few-words", "held-scores")
    assert max(b.words for b in masked if b.strength in PROVEN and b.theorem not in others) == same


@laws
@given(shapes(), st.integers(1, 200))
def test_stored_outputs_would_not_lift_a_bound_on_loads_above_the_others(shape: Shape, units: int) -> None:
    n, m, d, dv, fast_words = shape
    workload = Workload(queries=n, keys=m, d=d, value_dim=dv)
    largest = largest_ordinary(bounds_for(workload, fast_words, units=units)).words
    for loads in (score_epochs, fast_products):
        assert loads(workload, fast_words, units=units).words + n * dv <= largest


def test_keys_combined_beforehand_are_outside_the_model() -> None:
    """With two keys softmax needs their difference only: five rows at a time in eight words of fast memory."""
    n, d, rows, fast_words = 10**6, 64, 5, 8
    assert max(rows + 2, rows + 3) <= fast_words
    moved = 2 * 3 * d + n // rows * ((rows + 1) * d + (rows + 2) * d)
    bound = largest_ordinary(bounds_for(Workload(queries=n, keys=2, d=d), fast_words))
    assert (moved, bound.theorem, bound.words) == (166_400_384, "fused-epochs", 202_799_992)


def test_several_units_are_assumed_to_exchange_words_through_slow_memory_only() -> None:
    workload, assumed = Workload(n=4096, d=64), "units exchange words through slow memory only"
    one_memory = ("row-passes", "whole-epochs", "row-sums", "single-stays", "short-periods", "held-scores")
    every = [bound for bound in bounds_for(workload, 2048) if bound.theorem not in one_memory]
    for alone, together in zip(every, bounds_for(workload, 2048, units=2), strict=True):
        assert assumed not in alone.assumptions
        any_units = together.theorem in ("compulsory", "saha-ye")
        assert together.assumptions == alone.assumptions + (() if any_units else (assumed,))


def test_the_slowest_boundary_is_meant_unless_another_is_given() -> None:
    levels = (
        MemoryLevel(name="shared", capacity_bytes=2**16, units=4),
        MemoryLevel(name="cache", capacity_bytes=2**24),
        MemoryLevel(name="memory"),
    )
    machine = Machine(name="three levels", levels=levels)
    workload = Workload(n=65_536, d=64)
    assert lower_bounds(workload, machine) == bounds_for(workload, 2**23 + 4 * 2**15)
    fastest = machine.boundaries[0]
    assert lower_bounds(workload, machine, boundary=fastest) == bounds_for(workload, 2**15, units=4)


def test_every_bound_names_its_page_its_source_and_its_assumptions() -> None:
    for bound in bounds_for(Workload(n=4096, d=64, value_dim=32), 2048):
        assert bound.page.startswith("docs/theory/")
        assert bound.citation
        assert bound.assumptions
        assert bound.regime


def test_the_largest_bound_of_a_strength_is_of_that_strength_or_a_stronger_one() -> None:
    bounds = bounds_for(Workload(n=4096, d=64), 4096)
    assert largest_absolute(bounds).words < largest_ordinary(bounds).words < max(bound.words for bound in bounds)
    assert largest_absolute(bounds).strength is Strength.ABSOLUTE
    with pytest.raises(InvalidInput, match="none of the bounds given is absolute"):
        largest_absolute(bound for bound in bounds if bound.strength is not Strength.ABSOLUTE)
    with pytest.raises(InvalidInput, match="none of the bounds given is ordinary"):
        largest_ordinary(bound for bound in bounds if bound.strength not in PROVEN)


@pytest.mark.parametrize(("n", "d"), [(2048, 512), (16_384, 4096)])
def test_strassens_products_go_below_ordinary_bounds_and_never_below_absolute_ones(n: int, d: int) -> None:
    """Two fast products, the scores read and written once for softmax, the outputs once to be divided."""
    fast_words = 16
    products = (ProductShape(rows=n, keys=n, depth=d), ProductShape(rows=n, keys=d, depth=n))
    moved = sum(best_strassen_words(each, fast_words) for each in products) + 2 * n * n + 2 * n * d + 4 * n
    bounds = bounds_for(Workload(n=n, d=d), fast_words)
    assert largest_absolute(bounds).words <= moved < largest_ordinary(bounds).words
    assert largest_ordinary(bounds).strength is Strength.ORDINARY


@pytest.mark.parametrize("direction", ["forward", "backward", "training"])
@pytest.mark.parametrize("tolerance", [None, 0.1])
def test_a_bound_says_whether_fast_products_or_skipped_inputs_are_covered(
    direction: str, tolerance: float | None
) -> None:
    workload = Workload(n=4096, d=64, direction=direction, tolerance=tolerance)
    for bound in bounds_for(workload, 2048):
        assert bound.covers
        if bound.strength is Strength.ABSOLUTE:
            assert bound.theorem in ("compulsory", "fast-products", "unread-values")
        if bound.strength is Strength.ORDINARY:
            assert ("Strassen" in bound.covers) == (tolerance is None)


def test_a_fast_memory_without_a_word_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"fast memory \(words\) is 0; it must be at least 1"):
        bounds_for(Workload(n=8, d=8), 0)
