import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attenio.bounds.backward.gradient_rows import gradient_rows
from attenio.bounds.fast_products import explicit_scores_per_epoch, fast_products
from attenio.bounds.score_epochs import score_epochs
from attenio.workload import Workload

laws = settings(max_examples=20, deadline=None, derandomize=True)
entry_sets = arrays.arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 12)))


@laws
@given(entry_sets, st.integers(1, 6))
def test_a_set_of_scores_needs_the_words_that_the_counting_lemma_asks_for(entries: np.ndarray, d: int) -> None:
    by_row = np.minimum(entries.sum(axis=1), d).sum()
    by_column = np.minimum(entries.sum(axis=0), d).sum()
    budget = float(max(by_row, by_column))
    assert entries.sum() <= explicit_scores_per_epoch(budget, float(d))


@laws
@given(entry_sets, st.integers(1, 4), st.integers(0, 10))
def test_scores_of_random_inputs_carry_as_many_degrees_of_freedom(entries: np.ndarray, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, keys = entries.shape
    q, k = rng.normal(size=(rows, d)), rng.normal(size=(keys, d))
    by_query = np.einsum("ab,jt->ajbt", np.eye(rows), k).reshape(rows * keys, rows * d)
    by_key = np.einsum("ab,it->iabt", np.eye(keys), q).reshape(rows * keys, keys * d)
    jacobian = np.hstack([by_query, by_key])[entries.ravel()]
    rank = int(np.linalg.matrix_rank(jacobian)) if entries.any() else 0
    assert rank >= np.minimum(entries.sum(axis=1), d).sum()
    assert rank >= np.minimum(entries.sum(axis=0), d).sum()
    assert entries.sum() <= explicit_scores_per_epoch(float(rank), float(d))


@laws
@given(st.integers(1, 10**5), st.integers(1, 256), st.integers(1, 2**30))
def test_allowing_any_product_never_raises_the_bound_on_scores(n: int, d: int, fast_words: int) -> None:
    workload = Workload(n=n, d=d)
    assert fast_products(workload, fast_words).words <= score_epochs(workload, fast_words).words


@laws
@given(*3 * [st.integers(1, 256)], st.integers(1, 2**20), st.sampled_from([1, 2, 132]))
def test_nor_does_it_raise_that_on_gradients(n: int, d: int, value_dim: int, fast_words: int, units: int) -> None:
    workload = Workload(n=100 * n, d=d, value_dim=value_dim, direction="backward")
    bounds = (way(workload, fast_words, units=units).words for way in (fast_products, gradient_rows))
    assert next(bounds) <= next(bounds)


@laws
@given(st.integers(1, 10**5), st.integers(1, 256), st.integers(1, 2**30))
def test_the_stated_form_is_reached(n: int, d: int, fast_words: int) -> None:
    words = fast_products(Workload(n=n, d=d), fast_words).words
    assert words >= min(n * n / 4, n * n * d * d / (4 * fast_words)) * (1 - 1e-9)
