import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.reference import attention, forward, segments
from attenio.workload import Workload

QUICK = settings(max_examples=17, deadline=None, derandomize=True)


def drawn(workload, seed=0):
    draw = np.random.default_rng(seed)
    return (
        draw.standard_normal((workload.batch, workload.heads, workload.queries, workload.d)),
        draw.standard_normal((workload.batch, workload.kv_heads, workload.keys, workload.d)),
        draw.standard_normal((workload.batch, workload.kv_heads, workload.keys, workload.value_dim)),
    )


def by_hand(q, k, v, required, scale):
    """One row at a time, as the formula is written."""
    output = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        weights = {j: np.exp(scale * float(q[i] @ k[j])) for j in range(len(k)) if required(i, j)}
        for j, weight in weights.items():
            output[i] += weight * v[j] / sum(weights.values())
    return output


MASKS = {
    "dense": lambda n, m: lambda i, j: True,
    "causal": lambda n, m: lambda i, j: j <= i + m - n,
    "window:3": lambda n, m: lambda i, j: i + m - n - 3 < j <= i + m - n,
    "window:3:both": lambda n, m: lambda i, j: abs(i + m - n - j) < 3,
}


@QUICK
@given(st.sampled_from(list(MASKS)), st.integers(1, 9), st.integers(3, 9), st.integers(1, 4), st.integers(1, 4))
def test_attention_is_the_formula_row_by_row(mask, n, m, d, width):
    workload = Workload(queries=n, keys=m, d=d, value_dim=width, mask=mask)
    q, k, v = drawn(workload)
    expected = by_hand(q[0, 0], k[0, 0], v[0, 0], MASKS[mask](n, m), d**-0.5)
    np.testing.assert_allclose(attention(q, k, v, workload)[0, 0], expected, rtol=1e-12, atol=1e-12)


def test_query_heads_of_a_group_share_their_kv_head():
    workload = Workload(n=5, d=3, heads=6, kv_heads=2, batch=2)
    q, k, v = drawn(workload)
    whole = Workload(n=5, d=3, heads=6, batch=2)
    repeated = attention(q, np.repeat(k, 3, axis=1), np.repeat(v, 3, axis=1), whole)
    np.testing.assert_allclose(attention(q, k, v, workload), repeated, rtol=1e-13)


def test_documents_do_not_see_each_other():
    workload = Workload(n=7, d=2, mask="documents:3,4")
    q, k, v = drawn(workload)
    together = attention(q, k, v, workload)
    for rows, length in ((slice(0, 3), 3), (slice(3, 7), 4)):
        alone = Workload(n=length, d=2, mask="causal")
        np.testing.assert_allclose(
            together[:, :, rows], attention(q[:, :, rows], k[:, :, rows], v[:, :, rows], alone), rtol=1e-13
        )
    assert [(segment.rows, segment.keys) for segment in segments(workload)] == [(slice(0, 3),) * 2, (slice(3, 7),) * 2]


def test_rows_that_require_no_score_are_zero():
    workload = Workload(queries=5, keys=2, d=2, mask="causal")
    output = attention(*drawn(workload), workload)
    assert (output[:, :, :3] == 0).all()
    assert (output[:, :, 3:] != 0).all()


def test_blocks_of_rows_give_what_all_rows_at_once_give(monkeypatch):
    workload = Workload(queries=9, keys=7, d=2, mask="window:2")
    inputs = drawn(workload)
    whole = attention(*inputs, workload)
    monkeypatch.setattr(forward, "SCORES_AT_ONCE", 14)
    np.testing.assert_allclose(attention(*inputs, workload), whole, rtol=1e-13)


@pytest.mark.parametrize("size", [1e4, 1e30, 1e200])
def test_scores_of_any_size_keep_the_output_within_the_values(size):
    workload = Workload(n=6, d=2)
    q, k, v = drawn(workload)
    output = attention(q * size, k, v, workload)
    assert (np.abs(output) <= np.abs(v).max() * (1 + 1e-12)).all()


def test_a_wrong_shape_is_named():
    workload = Workload(n=4, d=2)
    q, k, v = drawn(workload)
    with pytest.raises(InvalidInput, match=r"k has shape \(1, 1, 4, 1\); this workload needs .* = \(1, 1, 4, 2\)"):
        attention(q, k[..., :1], v, workload)
