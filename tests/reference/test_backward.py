import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.reference import attention, attention_gradients
from attenio.workload import Direction, Workload

from ..dataflows.laws import workloads

QUICK = settings(max_examples=20, deadline=None, derandomize=True)


def draw_arrays(workload, seed):
    rng = np.random.default_rng(seed)
    batch, rows, keys = workload.batch, workload.queries, workload.keys
    return (
        rng.standard_normal((batch, workload.heads, rows, workload.d)),
        rng.standard_normal((batch, workload.kv_heads, keys, workload.d)),
        rng.standard_normal((batch, workload.kv_heads, keys, workload.value_dim)),
        rng.standard_normal((batch, workload.heads, rows, workload.value_dim)),
    )


@QUICK
@given(workload=workloads(), seed=st.integers(0, 2**31))
def test_gradients_are_what_finite_differences_say(workload, seed):
    q, k, v, do = draw_arrays(workload, seed)
    gradients = attention_gradients(q, k, v, do, workload)
    rng, step = np.random.default_rng(seed + 1), 1e-5
    towards = [rng.standard_normal(x.shape) for x in (q, k, v)]

    def loss(sign):
        moved = [x + sign * step * t for x, t in zip((q, k, v), towards, strict=True)]
        return float((attention(*moved, workload) * do).sum())

    slope = (loss(1) - loss(-1)) / (2 * step)
    predicted = sum(float((g * t).sum()) for g, t in zip(gradients, towards, strict=True))
    assert slope == pytest.approx(predicted, rel=1e-6, abs=1e-7 * do.size * k.size)


def test_a_shift_of_all_scores_of_a_row_changes_nothing_so_key_gradients_along_it_vanish():
    workload = Workload(n=6, d=3)
    q, k, v, do = draw_arrays(workload, 0)
    dk = attention_gradients(q, k, v, do, workload).dk
    # adding the same vector to every key shifts every row's scores, which softmax does not see
    assert np.abs(dk.sum(axis=2)).max() < 1e-12


def test_heads_of_a_group_add_up():
    shared = Workload(n=5, d=2, heads=3, kv_heads=1)
    q, k, v, do = draw_arrays(shared, 3)
    alone = Workload(n=5, d=2)
    parts = [attention_gradients(q[:, h : h + 1], k, v, do[:, h : h + 1], alone) for h in range(3)]
    together = attention_gradients(q, k, v, do, shared)
    np.testing.assert_allclose(together.dk, sum(part.dk for part in parts), atol=1e-12)
    np.testing.assert_allclose(together.dv, sum(part.dv for part in parts), atol=1e-12)


def test_a_wrong_shape_is_named():
    workload = Workload(n=4, d=2)
    q, k, v, do = draw_arrays(workload, 0)
    with pytest.raises(InvalidInput, match=r"do has shape \(1, 1, 3, 2\)"):
        attention_gradients(q, k, v, do[:, :, :3], workload)


@QUICK
@given(workload=workloads())
def test_a_training_step_needs_at_least_either_half(workload):
    forward, backward, training = (workload.towards(direction) for direction in Direction)
    assert training.compulsory_words >= max(forward.compulsory_words, backward.compulsory_words)
    assert training.flops == forward.flops + backward.flops
