"""Whole epochs: the best number of them, and no plan below."""

from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.output_epochs import output_epochs, output_products_per_epoch
from attenio.bounds.whole_epochs import budget_for, whole_epochs, words_of
from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for
from attenio.workload import Workload

LAWS = settings(max_examples=60, deadline=None, derandomize=True)


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
    every = max(words_of(k, workload.scores * d, (d, d), fast_words) for k in range(1, 3000))
    found = whole_epochs(workload, fast_words).words
    assert found <= every or 4 * workload.scores * d * d > 3000 * fast_words**2
    assert found >= 0.9 * every
    if 4 * d * d <= fast_words <= n * d:  # the leading term, and most of a fast memory
        assert (
            found
            >= output_epochs(workload, fast_words).words + 0.8 * fast_words - 2 * (n * d / fast_words + 1) ** 2 * 4
        )
