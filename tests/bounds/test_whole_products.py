"""Whole products: no set of whole numbers does more, no plan moves less, and tiny memories gain by it."""

from collections.abc import Iterator
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from attenio.bounds.backward.fused_epochs import fused_gradient_epochs, fused_gradient_words
from attenio.bounds.epochs import products_per_epoch
from attenio.bounds.fused_epochs import fused_epoch_words, fused_epochs
from attenio.bounds.whole_products import (
    LARGEST_BUDGET,
    LARGEST_FAST_WORDS,
    budget_with_few_fresh_pairs,
    budget_without_fresh_pairs,
    most_whole_products,
    whole_product_words,
)
from attenio.dataflows import execute
from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for
from attenio.workload import Workload

laws = settings(max_examples=26, deadline=None, derandomize=True)
MOST = most_whole_products(60)


def partitions(cells: int, widest: int) -> Iterator[tuple[int, ...]]:
    """Diagrams of rows that do not grow."""
    if cells == 0:
        yield ()
    for first in range(min(cells, widest), 0, -1):
        for rest in partitions(cells - first, first):
            yield (first, *rest)


def piles(cells: int, below: tuple[int, ...] | None = None) -> Iterator[list[tuple[int, ...]]]:
    """Layers of cubes, each within the layer below: compressing a set towards a corner leaves one of these."""
    if cells == 0:
        yield []
    for size in range(1, cells + 1):
        for layer in partitions(size, size):
            if below is None or (len(layer) <= len(below) and all(a <= b for a, b in zip(layer, below, strict=False))):
                for rest in piles(cells - size, layer):
                    yield [layer, *rest]


def test_no_pile_of_cubes_has_smaller_shadows_and_some_pile_has_these() -> None:
    for cells in range(1, 11):
        least = min(sum(pile[0]) + sum(len(layer) + layer[0] for layer in pile) for pile in piles(cells))
        assert MOST[least] >= cells > MOST[least - 1]


@laws
@given(st.sets(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=40))
def test_no_set_of_products_has_fewer_words(cells: set[tuple[int, int, int]]) -> None:
    words = sum(len({cell[:axis] + cell[axis + 1 :] for cell in cells}) for axis in range(3))
    assert len(cells) <= MOST[words]
    assert MOST[words] <= products_per_epoch(float(words)) * (1 + 1e-12)


@laws
@given(st.data(), st.sampled_from(["forward", "backward"]), st.sampled_from(["dense", "causal", "window:3"]))
def test_no_run_in_a_tiny_memory_moves_less(data: st.DataObject, direction: str, mask: str) -> None:
    d, dv = (data.draw(st.integers(6, 20)) for _ in range(2))
    workload = Workload(n=data.draw(st.integers(3, 12)), d=d, value_dim=dv, mask=mask, direction=direction)
    fast_words = data.draw(st.integers(3, 14))
    try:
        plan = best_plan_for(workload, fast_words)
    except DoesNotFit:
        return
    bound = fused_epochs if direction == "forward" else fused_gradient_epochs
    assert bound(workload, fast_words).words <= execute(plan).moved_words == plan.moved_words


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_tiny_memories_gain_up_to_three_tenths_and_larger_ones_nothing(direction: str) -> None:
    workload = Workload(n=4096, d=64, direction=direction)
    bound = fused_epochs if direction == "forward" else fused_gradient_epochs
    halves = 4 if direction == "forward" else 8
    for fast_words, gain in ((3, 1.299), (4, 1.25), (16, 1.08), (42, 1.04)):
        real = halves * workload.scores * 64 / fast_words**0.5
        assert bound(workload, fast_words).words + workload.scores == pytest.approx(gain * real, rel=5e-3)
    assert whole_product_words(1e9, 128.0, budget_without_fresh_pairs(64.0), 43.0) == 0.0
    assert whole_product_words(1e9, 128.0, budget_with_few_fresh_pairs(64.0), 148.0) > 0.0
    assert whole_product_words(1e9, 1e4, 1e4, float(LARGEST_FAST_WORDS + 1)) == 0.0


@njit
def most_of_values(words, pairs):
    """For every number of words up to this, the most products of columns of values for so many pairs."""
    most = np.zeros(words + 1, np.int64)
    for spent in range(1, words + 1):
        most[spent] = most[spent - 1]
        for column in range(2, spent + 1):
            most[spent] = max(most[spent], most[spent - column] + min(pairs, column * column // 4))
            if column * column // 4 >= pairs:
                break
    return most


@njit
def most_of_scores(words, pairs, d, least):
    """The same for d columns of scores that have at least so many words each; -1 where words do not suffice."""
    most = np.full(words + 1, -1, np.int64)
    most[0] = 0
    for _ in range(d):
        before, most = most, np.full(words + 1, -1, np.int64)
        for column in range(least, words + 1):
            done = min(pairs, column * column // 4)
            for spent in range(column, words + 1):
                if before[spent - column] >= 0:
                    most[spent] = max(most[spent], before[spent - column] + done)
            if column * column // 4 >= pairs:
                break
    return most


@njit
def most_with_fresh_pairs(words, d):
    """For every budget up to this, the most products of an epoch into which all of a row and of a key flow, or of more.

    ``full`` of them do, so that each of the d columns of the scores has as many words.
    """
    best = np.zeros(words + 1, np.int64)
    for full in range(2, words // d + 1):
        for pairs in range(words - full * d + 1):
            left = words - pairs
            of_scores, of_values = most_of_scores(left, pairs, d, full), most_of_values(left, pairs + full * full // 4)
            for spent in range(full * d, left + 1):
                if of_scores[spent] >= 0:
                    for more in range(left - spent + 1):
                        at = pairs + spent + more
                        best[at] = max(best[at], of_scores[spent] + of_values[more])
    for budget in range(1, words + 1):
        best[budget] = max(best[budget], best[budget - 1])
    return best


@pytest.mark.parametrize(("d", "words"), [(3, 21), (5, 46), (7, 82), (8, 116), (16, 445)])
def test_pairs_made_afresh_add_nothing_up_to_a_budget_and_something_beyond(d: int, words: int) -> None:
    with_fresh, most = most_with_fresh_pairs(words + 1, d), most_whole_products(words + 1)
    assert budget_with_few_fresh_pairs(float(d)) <= words
    assert (with_fresh[: words + 1] <= most[: words + 1]).all()
    assert with_fresh[words + 1] > most[words + 1]


@pytest.mark.parametrize("d", [*range(1, 16)])
def test_pairs_made_afresh_add_nothing_where_the_bound_is_used(d: int) -> None:
    words = int(budget_with_few_fresh_pairs(float(d)))
    assert (most_with_fresh_pairs(words, d) <= most_whole_products(words)).all()


def test_whole_numbers_of_an_epoch_with_fresh_pairs_are_those_of_trying_all() -> None:
    words, d, best = 17, 3, 0
    for full in range(2, words // d + 1):
        for pairs in range(words - full * d + 1):
            for scores in combinations_with_replacement(range(full, words), d):
                left = words - pairs - sum(scores)
                if left < 0:
                    continue
                of_scores = sum(min(pairs, width * width // 4) for width in scores)
                for values in partitions(left, left):
                    done = sum(min(pairs + full * full // 4, width * width // 4) for width in values)
                    best = max(best, of_scores + done)
    assert most_with_fresh_pairs(words, d)[words] == best


def test_wider_rows_do_less_with_pairs_made_afresh() -> None:
    narrow, wide = (most_with_fresh_pairs(90, d) for d in (7, 9))
    assert (wide <= narrow).all()
    assert budget_with_few_fresh_pairs(16.0) == 384.0
    assert budget_with_few_fresh_pairs(18.0) == LARGEST_BUDGET == 3 * LARGEST_FAST_WORDS + 1


def test_a_run_of_one_epoch_obeys_too() -> None:
    most = most_whole_products(LARGEST_BUDGET)
    for fast_words in range(3, LARGEST_FAST_WORDS + 1):
        lengths = np.arange(fast_words, 2 * fast_words + 2)[:, None]
        clocks = np.arange(LARGEST_BUDGET + 1)[None, :]
        short = clocks <= fast_words + lengths
        done = most[np.minimum(clocks, LARGEST_BUDGET)]
        assert not (short & (lengths * done > (clocks + lengths - fast_words) * most[fast_words + lengths])).any()


@pytest.mark.parametrize("words_of", [fused_epoch_words, fused_gradient_words])
def test_arrays_say_what_floats_say(words_of) -> None:
    points = list(
        product((1e3, 1e8), (4.0, 16.0, 130.0), (8.0, 64.0), (3.0, 8.0, 33.0, 64.0, 65.0, 148.0, 149.0), (1.0, 3.0))
    )
    assert words_of(*np.array(points).T).tolist() == [words_of(*point) for point in points]
