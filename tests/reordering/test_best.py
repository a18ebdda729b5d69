"""Laws of the best order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.masks import BlockSparse
from attenio.planning import best_plan_for
from attenio.reordering import Method, best, best_reordering, reorder
from attenio.workload import Workload

laws = settings(max_examples=14, deadline=None, derandomize=True)


def workload_of(seed: int, group: int = 1) -> Workload:
    layout = np.random.default_rng(seed).random((12, 12)) < 0.2
    mask = BlockSparse.from_array(layout, query_block=4)
    return Workload(n=48, d=4, heads=group, kv_heads=1, mask=mask)


@laws
@given(seed=st.integers(0, 999), group=st.integers(1, 3), fast_words=st.integers(20, 500))
def test_the_best_order_moves_no_more_than_any_other(seed: int, group: int, fast_words: int) -> None:
    workload = workload_of(seed, group)
    found = best_reordering(workload, fast_words)
    assert found.plan == best_plan_for(found.reordering.workload, fast_words)
    assert found.plan.moved_words >= workload.compulsory_words
    rows = best.rows_that_fit(workload, fast_words)
    for method in Method:
        other = reorder(workload, method, rows_per_tile=rows)
        assert found.plan.moved_words <= best_plan_for(other.workload, fast_words).moved_words


@settings(laws, max_examples=8)
@given(seed=st.integers(0, 999), fast_words=st.integers(20, 500), direction=st.sampled_from(["backward", "training"]))
def test_the_best_order_of_gradients_moves_no_more_than_any_other(seed: int, fast_words: int, direction: str) -> None:
    workload = workload_of(seed, 2).towards(direction)
    found = best_reordering(workload, fast_words)
    assert found.plan == best.best_in_order(found.reordering.workload, fast_words)
    assert found.plan.workload.direction.value == direction
    for method in Method:
        for rows, keys in best.tiles_to_pack(workload, fast_words):
            other = reorder(workload, method, rows_per_tile=rows, keys_per_tile=keys)
            assert found.plan.moved_words <= best.best_in_order(other.workload, fast_words).moved_words


@laws
@given(seed=st.integers(0, 999))
def test_the_natural_order_is_kept_where_nothing_moves_less(seed: int) -> None:
    found = best_reordering(workload_of(seed), 100_000)
    assert found.reordering.method is Method.NATURAL
    assert found.plan.moved_words == found.plan.workload.compulsory_words


def test_only_the_methods_asked_for_are_tried() -> None:
    found = best_reordering(workload_of(1), 200, methods=(Method.CHAINED,))
    assert found.reordering.method is Method.CHAINED


def test_without_scipy_the_other_methods_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(best, "find_spec", lambda name: None)
    assert best.available_methods() == (Method.NATURAL, Method.GREEDY, Method.CHAINED)
