import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attenio.dataflows import random_inputs
from attenio.dataflows.arithmetic import Arithmetic
from attenio.elements import ElementType
from attenio.workload import Workload

from .laws import QUICK


def arithmetic(accumulator, *, wide=False):
    return Arithmetic(scale=1.0, accumulator=accumulator, wide=wide)


@QUICK
@given(arrays(np.float32, (3, 2), elements=st.floats(-1e6, 1e6, width=32)), st.sampled_from(list(ElementType)))
def test_kept_values_are_finite_values_of_the_accumulator_type(values, accumulator):
    kept = values.copy()
    arithmetic(accumulator).keep(kept)
    assert np.isfinite(kept).all()
    assert (accumulator.rounded(kept) == kept).all()


@pytest.mark.parametrize("accumulator", list(ElementType))
def test_a_masked_score_stays_minus_infinity_in_every_type(accumulator):
    kept = np.array([[-np.inf, 1.0]], dtype=np.float32)
    arithmetic(accumulator).keep(kept)
    assert kept.tolist() == [[-np.inf, 1.0]]


@QUICK
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_products_add_up_whatever_their_depth(rows, depth, columns, wide):
    draw = np.random.default_rng(0)
    left, right = draw.integers(-4, 5, (rows, depth)), draw.integers(-4, 5, (depth, columns))
    total = np.ones((rows, columns), dtype=np.float32)
    step = arithmetic(ElementType.FP32, wide=wide)
    step.add_product(total, left.astype(np.float32), right.astype(np.float32), 0.5)
    assert (total == 1 + 0.5 * (left @ right)).all()


def test_a_product_beyond_single_precision_saturates():
    total, huge = np.zeros((1, 1), dtype=np.float32), np.full((1, 2), 1e30, dtype=np.float32)
    opposite = np.array([[1e30], [-1e30]], dtype=np.float32)
    step = arithmetic(ElementType.FP32, wide=True)
    step.add_product(total, huge, opposite)
    assert total == 0
    step.add_product(total, huge, np.abs(opposite))
    assert total == np.finfo(np.float32).max


def test_only_inputs_that_could_overflow_are_multiplied_in_double_precision():
    workload = Workload(n=4, d=2, dtype="fp32")
    q, k, v = random_inputs(workload)
    assert not Arithmetic.of(workload, q, k, v).wide
    assert Arithmetic.of(workload, q * np.float32(1e20), k * np.float32(1e20), v).wide
    assert Arithmetic.of(workload, q, k, v * np.float32(1e38)).wide


def test_the_word_model_keeps_intermediates_in_single_precision():
    workload = Workload(n=4, d=2, dtype="fp8")
    assert Arithmetic.of(workload, *random_inputs(workload)).accumulator is ElementType.FP32
