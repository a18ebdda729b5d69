import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.online_softmax import OnlineSoftmax, RowStatistics, hide, normalise
from attenio.elements import ElementType
from attenio.memory import FastMemory, Tile

from .laws import QUICK

EXACT = Arithmetic(scale=1.0, accumulator=ElementType.FP32, wide=False)

matrices = st.tuples(st.integers(1, 5), st.integers(1, 8), st.integers(0, 99), st.sampled_from([1.0, 50.0, 1e8])).map(
    lambda drawn: drawn[3] * np.random.default_rng(drawn[2]).standard_normal(drawn[:2]).astype(np.float32)
)


def tile(values, name="S"):
    return Tile(name, values, slice(0, values.shape[0]), slice(0, values.shape[1]))


def softmax_of(scores):
    weights = np.exp(scores.astype(float) - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


@QUICK
@given(matrices, st.integers(1, 8))
def test_absorbing_scores_run_by_run_gives_the_softmax_of_all(scores, run):
    values = np.random.default_rng(1).standard_normal((scores.shape[1], 3)).astype(np.float32)
    output = tile(np.zeros((len(scores), 3), dtype=np.float32), "O")
    with OnlineSoftmax(FastMemory(1000), EXACT, len(scores)) as softmax:
        softmax.begin(output.rows)
        for start in range(0, scores.shape[1], run):
            part = slice(start, start + run)
            P = softmax.absorb(tile(scores[:, part].copy()), None)
            softmax.accumulate(output, P, tile(values[part], "V"))
        softmax.normalise(output)
    np.testing.assert_allclose(output.values, softmax_of(scores) @ values, atol=1e-5)


@QUICK
@given(matrices, st.integers(0, 8))
def test_row_statistics_of_two_parts_give_the_probabilities_of_the_row(scores, first):
    row = scores[:1]
    parts = [tile(part.copy()) for part in (row[:, :first], row[:, first:]) if part.size]
    with RowStatistics(FastMemory(2), EXACT) as statistics:
        statistics.begin()
        for part in parts:
            statistics.take(part)
        found = np.concatenate([statistics.probabilities(part).values for part in parts], axis=1)
    np.testing.assert_allclose(found, softmax_of(row), atol=1e-5)


def test_rows_without_a_required_score_stay_zero_until_one_comes():
    output = tile(np.zeros((2, 1), dtype=np.float32), "O")
    value = tile(np.array([[3.0]], dtype=np.float32), "V")
    with OnlineSoftmax(FastMemory(100), EXACT, 2) as softmax:
        softmax.begin(output.rows)
        for hidden in (np.array([[True], [True]]), np.array([[True], [False]])):
            P = softmax.absorb(tile(np.full((2, 1), -1e30, dtype=np.float32)), hidden)
            softmax.accumulate(output, P, value)
        softmax.normalise(output)
    assert output.values.tolist() == [[0.0], [3.0]]


def test_statistics_take_three_words_a_row_and_give_them_back():
    fast = FastMemory(100, intermediate_words=2)
    with OnlineSoftmax(fast, EXACT, 5):
        assert fast.in_use_words == 3 * 5 * 2
    assert fast.in_use_words == 0


def test_hiding_and_normalising_touch_only_what_they_should():
    scores = tile(np.ones((1, 2), dtype=np.float32))
    hide(scores, None)
    assert scores.values.tolist() == [[1.0, 1.0]]
    hide(scores, np.array([[True, False]]))
    assert scores.values.tolist() == [[-np.inf, 1.0]]
    output = tile(np.array([[4.0], [0.0]], dtype=np.float32), "O")
    normalise(FastMemory(1), EXACT, output, tile(np.array([[2.0], [0.0]], dtype=np.float32), "sum"))
    assert output.values.tolist() == [[2.0], [0.0]]
