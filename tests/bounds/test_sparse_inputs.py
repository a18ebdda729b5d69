"""Sparse inputs: dense ones are a case of them, blocks have the published growth, and no schedule moves less."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for, largest_ordinary
from attenio.bounds.product import product_words
from attenio.bounds.sparse_inputs import common_nonzeros, sparse_inputs
from attenio.errors import InvalidInput
from attenio.workload import Workload

laws = settings(max_examples=40, deadline=None, derandomize=True)


def rows_stay(Q, K, dv, rows):
    """Words and room: nonzeros of some rows and their outputs stay while nonzeros of the keys and values pass."""
    moved = peak = 0
    for start in range(0, len(Q), rows):
        tile = Q[start : start + rows]
        met = K[:, tile.any(axis=0)].sum()
        moved += tile.sum() + len(tile) * dv + met + len(K) * dv
        peak = max(peak, tile.sum() + len(tile) * (dv + 4) + 1)
    return int(moved), int(peak)


def scores_stay(Q, K, dv, rows, keys):
    """A tile of scores stays; columns of both factors pass where they have nonzeros, and so do values and outputs."""
    moved = peak = 0
    for top in range(0, len(Q), rows):
        for left in range(0, len(K), keys):
            q, k = Q[top : top + rows], K[left : left + keys]
            both = q.any(axis=0) & k.any(axis=0)
            outputs = len(q) * dv * (1 if left == 0 else 2)
            moved += q[:, both].sum() + k[:, both].sum() + len(k) * dv + outputs
            peak = max(peak, len(q) * len(k) + len(q) * 4 + 1)
    return int(moved), int(peak)


def patterns(draw, most=24, widest=10):
    rows, keys, d = draw(st.integers(1, most)), draw(st.integers(1, most)), draw(st.integers(1, widest))
    rng, share = np.random.default_rng(draw(st.integers(0, 999))), draw(st.sampled_from([0.1, 0.3, 0.6, 1.0]))
    Q, K = rng.random((rows, d)) < share, rng.random((keys, d)) < share
    if draw(st.booleans()):
        Q[:, d // 2 :], K[:, d // 2 :] = False, False
    return Q, K


@laws
@given(st.data())
def test_no_schedule_that_leaves_zeros_out_moves_less(data):
    Q, K = patterns(data.draw)
    dv = data.draw(st.integers(1, 8))
    runs = [rows_stay(Q, K, dv, rows) for rows in (1, 2, 5, 24)]
    runs += [scores_stay(Q, K, dv, rows, keys) for rows in (1, 3, 8) for keys in (1, 4, 9)]
    for moved, peak in runs:
        assert sparse_inputs(common_nonzeros(Q, K), dv, peak).words <= moved


@pytest.mark.parametrize(("n", "d", "dv"), [(256, 16, 16), (100, 32, 8), (64, 8, 40)])
def test_inputs_without_zeros_have_the_bounds_of_dense_attention(n, d, dv):
    common = common_nonzeros(np.ones((n, d)), np.ones((n, d)))
    workload = Workload(n=n, d=d, value_dim=dv)
    # words that inputs, sums and outputs take
    apart = "compulsory", "single-stays", "short-periods", "row-sums", "held-scores"
    for fast_words in (9, 100, d * d, 4 * d * d):
        dense = largest_ordinary(bound for bound in bounds_for(workload, fast_words) if bound.theorem not in apart)
        assert sparse_inputs(common, dv, fast_words).words >= dense.words


def test_blocks_of_nonzeros_have_the_two_terms_of_the_published_growth():
    queries, keys = np.zeros((512, 64)), np.zeros((512, 64))
    queries[:256, :16], keys[:256, :16] = 1, 1
    common, inputs, scores = common_nonzeros(queries, keys), 2 * 256 * 16, 256**2
    assert common.products == inputs * scores**0.5 / 2
    for fast_words in (16, 64):
        assert sparse_inputs(common, 1, fast_words).words >= inputs * (scores / fast_words) ** 0.5 - scores - fast_words
        product = product_words(256, 256, 16, fast_words=fast_words)
        assert sparse_inputs(common, 1, fast_words).words >= product - scores
    for fast_words in (512, 4096):
        assert sparse_inputs(common, 1, fast_words).words >= inputs**2 / (4 * fast_words)


def test_only_required_pairs_count_and_patterns_have_to_fit_each_other():
    queries = keys = np.ones((4, 3))
    causal = common_nonzeros(queries, keys, np.tri(4))
    assert (causal.pairs, causal.products, causal.scores) == ((0, 0, 0, 10), 30, 10)
    with pytest.raises(InvalidInput, match="same width"):
        common_nonzeros(queries, np.ones((4, 2)))
    with pytest.raises(InvalidInput, match="4 rows and 4 keys"):
        common_nonzeros(queries, keys, np.ones((3, 4)))
    with pytest.raises(InvalidInput, match="at least one row"):
        common_nonzeros(np.ones(3), keys)
