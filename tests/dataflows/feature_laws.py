"""What every approximate dataflow must obey, and small random problems to check it on.

Closed forms stand in the test of each dataflow, from counts of the matrix of required scores; features are counted by
listing them. Neither shares code with the planner or with the loop nests.
"""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from attenio.dataflows import execute, random_inputs
from attenio.elements import ElementType
from attenio.errors import MemoryOverflow
from attenio.masks import Causal, Dense, Documents
from attenio.planning.costs import cost
from attenio.planning.plan import Dataflow
from attenio.workload import Workload

from .laws import counted, planned, total

SMALL = settings(max_examples=17, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@st.composite
def bounded_workloads(draw, *, causal=None):
    queries, keys = draw(st.integers(1, 11)), draw(st.integers(1, 11))
    kv_heads = draw(st.sampled_from([1, 1, 2]))
    masks = [Causal()] if causal else [Causal(), Dense()]
    if min(queries, keys) > 2:
        lengths, key_lengths = (1, queries - 1), (keys - 2, 2)
        masks.append(Documents(lengths=lengths, key_lengths=key_lengths, causal=causal or draw(st.booleans())))
    return Workload(
        queries=queries,
        keys=keys,
        d=draw(st.integers(1, 5)),
        value_dim=draw(st.integers(1, 5)),
        heads=kv_heads * draw(st.sampled_from([1, 1, 2, 3])),
        kv_heads=kv_heads,
        batch=draw(st.integers(1, 2)),
        mask=draw(st.sampled_from(masks)),
        dtype=draw(st.sampled_from(list(ElementType))),
        accumulator=draw(st.sampled_from([None, ElementType.FP32])),
        tolerance=0.1,
        entry_bound=draw(st.sampled_from([0.05, 0.3, 0.7])),
    )


def feature_total(d, degree):
    return len(list(combinations_with_replacement(range(d + 1), degree)))


def of_groups(workload):
    return counted(workload, by_group=True)


def obeys_and_guarantees(workload, dataflow: Dataflow, tiles, closed_form) -> None:
    """Words and peak are exact, also as the planner has them; a word less overflows; the error is as promised."""
    moved, peak = total(of_groups(workload), closed_form, tiles)
    predicted = cost(workload, dataflow, tiles)
    assert (predicted.moved_words, predicted.peak_words) == (moved, peak)
    assert moved >= workload.compulsory_words
    run = execute(planned(workload, dataflow, tiles, peak))
    assert (run.moved_words, run.peak_words) == (moved, peak)
    if workload.direction.value == "forward":
        assert run.max_abs_error <= run.guaranteed_error
    else:
        computes_the_gradient(run)
    with pytest.raises(MemoryOverflow):
        execute(planned(workload, dataflow, tiles, peak - 1))


def computes_the_gradient(run) -> None:
    """Each gradient is that of the approximate function, taken here in float64 with whole matrices; seed 0."""
    from attenio.dataflows import random_gradient
    from attenio.dataflows.guarantee import polynomial_of

    from .laws import _by_kv_head, required_matrix

    workload = run.plan.workload
    inputs, do = random_inputs(workload), random_gradient(workload).astype(np.float64)
    q = inputs.q.astype(np.float64)
    k, v = (np.repeat(x, workload.group, axis=1).astype(np.float64) for x in (inputs.k, inputs.v))
    polynomial, required = polynomial_of(run.plan), required_matrix(workload)
    scores = workload.softmax_scale * (q @ np.swapaxes(k, -1, -2))
    slope = np.polynomial.Polynomial(polynomial.coefficients).deriv()
    weights, slopes = (np.where(required, f(scores), 0.0) for f in (polynomial, slope))
    sums = weights.sum(axis=-1, keepdims=True)
    sums = np.where(sums == 0, 1.0, sums)
    output = weights @ v / sums
    d_scores = slopes * (do @ np.swapaxes(v, -1, -2) - (do * output).sum(axis=-1, keepdims=True)) / sums
    d_scores *= workload.softmax_scale
    exact = (
        d_scores @ k,
        *_by_kv_head(workload, (np.swapaxes(d_scores, -1, -2) @ q, np.swapaxes(weights / sums, -1, -2) @ do)),
    )
    for found, right in zip(run.gradients, exact, strict=True):
        allowed = (
            2.0
            ** -{ElementType.FP32: 16, ElementType.FP16: 10, ElementType.BF16: 7, ElementType.FP8: 3}[workload.dtype]
        )
        assert np.abs(found - right).max() <= allowed * max(1.0, np.abs(right).max())
