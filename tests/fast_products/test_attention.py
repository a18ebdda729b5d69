import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.fast_products import fast_products
from attenio.errors import InvalidInput
from attenio.fast_products.attention import fast_attention, plan_fast_attention, random_inputs
from attenio.fast_products.shape import Shape
from attenio.fast_products.words import most_levels, strassen_words
from attenio.planning import best_plan_for
from attenio.workload import Workload

LAWS = settings(max_examples=14, deadline=None, derandomize=True)
sides = st.integers(1, 24)


@LAWS
@given(rows=sides, keys=sides, d=sides, dv=sides, fast_words=st.integers(3, 40))
def test_a_run_computes_attention_and_moves_what_its_plan_says(rows, keys, d, dv, fast_words):
    inputs = random_inputs(Shape(rows=rows, keys=keys, depth=d), value_dim=dv, seed=rows)
    run = fast_attention(*inputs, fast_words=fast_words)
    assert run.moved_words == run.plan.moved_words
    assert run.peak_words <= fast_words
    assert run.max_abs_error < 1e-4
    assert run.moved_words >= fast_products(Workload(queries=rows, keys=keys, d=d, value_dim=dv), fast_words).words


@LAWS
@given(rows=sides, keys=sides, d=sides, dv=sides, fast_words=st.integers(4, 40))
def test_no_other_numbers_of_steps_move_less(rows, keys, d, dv, fast_words):
    plan = plan_fast_attention(Shape(rows=rows, keys=keys, depth=d), value_dim=dv, fast_words=fast_words)
    least = [
        min(strassen_words(shape, fast_words, levels) for levels in range(most_levels(shape) + 1))
        for shape in (plan.scores, plan.outputs)
    ]
    assert plan.moved_words == sum(least) + 3 * rows * keys


def test_attention_by_strassens_product_moves_less_than_any_plan_with_ordinary_ones_where_matrices_are_wide():
    n, d, fast_words = 16_384, 4096, 16
    plan = plan_fast_attention(Shape(rows=n, keys=n, depth=d), value_dim=d, fast_words=fast_words)
    assert 1.9 * plan.moved_words < best_plan_for(Workload(n=n, d=d), fast_words).moved_words


def test_inputs_that_do_not_fit_each_other_are_told():
    with pytest.raises(InvalidInput, match="as many as values"):
        fast_attention(np.ones((2, 3)), np.ones((4, 3)), np.ones((5, 2)), fast_words=8)
