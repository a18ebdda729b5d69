"""Monomial epochs: the constants, the special case of a matrix product, and where there is nothing to say."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.approximate import monomial_constant, monomial_epoch_words, monomial_epochs
from attenio.bounds.approximate.monomial_epochs import terms_per_epoch
from attenio.bounds.lower_bound import Strength
from attenio.planning.approximate.forms import best_approximate_tiles
from attenio.planning.plan import Dataflow
from attenio.planning.problems import Problems
from attenio.workload import Workload


def test_degree_one_is_a_matrix_product() -> None:
    assert monomial_constant(1) == pytest.approx(2.0)
    fast = 10_000
    found = monomial_epoch_words(1e12, 0.0, 1, float(fast))
    assert found == pytest.approx(2e12 / math.sqrt(fast) - fast, rel=1e-9)


@pytest.mark.parametrize(("degree", "recalled"), [(1, 0.544), (2, 0.424), (3, 0.371), (4, 0.342)])
def test_the_constants_are_those_of_the_proof_and_above_weaker_ones(degree: int, recalled: float) -> None:
    exact = (degree + 1) * (math.factorial(degree) / degree**degree) ** (1 / (degree + 1))
    assert monomial_constant(degree) == pytest.approx(exact)
    assert 2 * monomial_constant(degree) > recalled


@settings(max_examples=26, deadline=None)
@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 6)), max_size=12), st.integers(1, 400))
def test_no_epoch_of_whole_entries_does_more_terms(degree: int, rows: list[tuple[int, int]], sums: int) -> None:
    terms = sum(min(sums, math.comb(entries, degree) * columns) for entries, columns in rows)
    budget = sums + sum(entries + columns for entries, columns in rows)
    assert terms <= terms_per_epoch(float(budget), degree) * (1 + 1e-12)


def test_it_says_what_it_is() -> None:
    found = monomial_epochs(Workload(n=2**20, d=64), 3, 65_536)
    assert found is not None
    assert found.strength is Strength.SCHEDULE


def test_it_counts_rows_of_all_heads_and_sums_of_shared_ones() -> None:
    shared = monomial_epochs(Workload(n=2**16, d=32, heads=8, kv_heads=2), 2, 4096)
    single = monomial_epochs(Workload(n=2**16, d=32), 2, 4096)
    assert shared is not None
    assert single is not None
    assert shared.words / single.words == pytest.approx(10 / 2, rel=0.01)


def test_it_is_silent_about_masks_and_constants() -> None:
    assert monomial_epochs(Workload(n=1024, d=64, mask="causal"), 2, 4096) is None
    assert monomial_epochs(Workload(n=1024, d=64), 0, 4096) is None


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.integers(1, 8), st.integers(1, 4), st.integers(1, 300), st.integers(1, 3), st.integers(1, 3),
    st.integers(1, 60), st.integers(1, 3), st.integers(0, 200),
)  # fmt: skip
def test_sums_of_a_shared_prefix_made_once_do_not_beat_it(
    d: int, value_dim: int, prefix: int, own: int, queries: int, batch: int, degree: int, spare: int
) -> None:
    """The sums of the prefix stay; each request copies them, adds its own keys, and answers: all words move once."""
    sums = math.comb(d + degree, degree) * (value_dim + 1)
    fast_words = 2 * sums + 2 * d + 2 * value_dim + degree + spare
    workload = Workload(
        queries=queries, keys=prefix + own, d=d, value_dim=value_dim, batch=batch, mask=f"prefix:{prefix}:full"
    )
    found = monomial_epochs(workload, degree, fast_words)
    assert found is not None
    assert found.words <= workload.compulsory_words


def test_keys_of_a_shared_prefix_count_once() -> None:
    requests = Workload(queries=1, keys=4097, d=8, batch=256, mask="prefix:4096")
    found = monomial_epochs(requests, 1, 202)
    assert found is not None
    assert found.words < requests.compulsory_words == 73_728


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.integers(1, 14), st.integers(2, 32), st.integers(1, 4), st.integers(4, 18))
def test_no_approximate_dataflow_beats_the_bound_of_its_class(log_n: int, d: int, degree: int, log_fast: int) -> None:
    workload, fast_words = Workload(n=2**log_n, d=d), 2**log_fast
    bound = monomial_epochs(workload, degree, fast_words)
    assert bound is not None
    for dataflow in (Dataflow.FEATURE_STATE, Dataflow.VALUE_COLUMNS, Dataflow.FEATURE_BLOCKS):
        best = best_approximate_tiles(Problems.separate(workload), dataflow, fast_words, degree, 1)
        assert best is None or best.moved_words >= bound.words
