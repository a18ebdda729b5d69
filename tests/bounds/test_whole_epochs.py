"""Whole epochs: the best number of them, and no plan below."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.backward.gradient_rows import gradient_rows
from attenio.bounds.backward.whole_epochs import whole_gradient_epochs
from attenio.bounds.output_epochs import output_epochs, output_products_per_epoch
from attenio.bounds.row_sums import budget_for as budget_with_sums
from attenio.bounds.row_sums import work_per_epoch, work_with_held_pairs
from attenio.bounds.whole_epochs import (
    SHARES,
    best_whole_epochs,
    budget_for,
    shares_worth_trying,
    whole_epochs,
    words_of,
)
from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for
from attenio.planning.training import training_plan_for
from attenio.workload import Workload

LAWS = settings(max_examples=20, deadline=None, derandomize=True)


@LAWS
@given(n=st.integers(1, 60), d=st.integers(1, 9), value_dim=st.integers(1, 9), fast_words=st.integers(3, 900))
def test_no_plan_moves_less_and_no_epoch_does_more_than_its_budget(
    n: int, d: int, value_dim: int, fast_words: int
) -> None:
    for mask in ("dense", "causal", f"window:{max(1, n // 3)}"):
        workload = Workload(n=n, d=d, value_dim=value_dim, mask=mask)
        bound = whole_epochs(workload, fast_words).words
        try:
            assert bound <= best_plan_for(workload, fast_words).moved_words
        except DoesNotFit:
            continue
    for products in (1, n, n * n * value_dim, n**3 * value_dim):
        done = output_products_per_epoch(budget_for(products, d, value_dim), float(d), float(value_dim))
        assert abs(float(done) - products) <= 1e-9 * products


@LAWS
@given(n=st.integers(2, 300), d=st.integers(1, 12), fast_words=st.integers(3, 4000))
def test_the_number_of_epochs_is_the_best_or_close_to_it(n: int, d: int, fast_words: int) -> None:
    workload = Workload(n=n, d=d)
    work = float(workload.scores * d)
    every = np.max(words_of(np.arange(1.0, 3000.0), work, lambda each: budget_for(each, d, d), float(fast_words)))
    found = whole_epochs(workload, fast_words).words
    assert found <= every or 4 * workload.scores * d * d > 3000 * fast_words**2
    assert found >= 0.9 * every
    if 4 * d * d <= fast_words <= n * d:  # the leading term, and most of a fast memory
        assert (
            found
            >= output_epochs(workload, fast_words).words + 0.8 * fast_words - 2 * (n * d / fast_words + 1) ** 2 * 4
        )


@settings(LAWS, max_examples=300)
@given(count=st.floats(0.5, 60), memory=st.floats(10, 22), d=st.integers(1, 64), value_dim=st.integers(1, 64))
def test_shares_that_are_left_out_say_no_more(count: float, memory: float, d: int, value_dim: int) -> None:
    sizes, fast_words, shares = (float(d), float(value_dim)), float(round(2**memory)), (2.0, 2.2, 2.5, 3.0)
    tried = shares_worth_trying(work_with_held_pairs(2 * fast_words, *sizes), fast_words**2, fast_words, shares)
    assert tried == shares[:1] or (tried == shares and fast_words < 64 * (d + value_dim) ** 2)
    work = count * work_per_epoch(2 * fast_words, *sizes)

    def words(shares: tuple[float, ...]) -> float:
        counts = [work / work_per_epoch(share * fast_words, *sizes) for share in shares]
        return float(best_whole_epochs(counts, work, lambda part: budget_with_sums(part, *sizes), fast_words))

    assert words(tried) == words(shares)
    assert set(SHARES) < set(shares)


@settings(LAWS, max_examples=17)
@given(n=st.integers(1, 40), d=st.integers(1, 7), value_dim=st.integers(1, 7), share=st.floats(0.02, 3))
def test_no_backward_pass_and_no_step_moves_less_than_whole_epochs(
    n: int, d: int, value_dim: int, share: float
) -> None:
    fast_words = max(3, int(share * n * d))
    for mask in ("dense", "causal", f"window:{max(1, n // 3)}"):
        workload = Workload(n=n, d=d, value_dim=value_dim, mask=mask)
        backward, step = workload.towards("backward"), workload.towards("training")
        try:
            moved = best_plan_for(backward, fast_words).moved_words, training_plan_for(step, fast_words).moved_words
        except DoesNotFit:
            continue
        assert whole_gradient_epochs(backward, fast_words).words <= moved[0]
        assert whole_gradient_epochs(step, fast_words).words <= moved[1]


@LAWS
@given(n=st.integers(64, 3000), d=st.integers(1, 40), share=st.floats(0.05, 1))
def test_whole_epochs_add_most_of_a_fast_memory_to_gradient_rows(n: int, d: int, share: float) -> None:
    fast_words = int(share * n * d)
    if fast_words < 20 * d * d:
        return
    workload = Workload(n=n, d=d, direction="backward")
    epochs = 12 * n * n * d * d / fast_words**2
    more = whole_gradient_epochs(workload, fast_words).words - gradient_rows(workload, fast_words).words
    assert (1 - 0.3 / epochs) * fast_words - 2 * epochs - 2 <= more <= fast_words
