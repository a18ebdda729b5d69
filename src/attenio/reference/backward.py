"""The definition of the gradient of attention, in float64: what every backward dataflow must compute.

    dV[j] = sum_i P[i,j] dO[i]            dP[i,j] = dO[i].V[j]          D[i] = sum_j P[i,j] dP[i,j] = dO[i].O[i]
    dS[i,j] = P[i,j] (dP[i,j] - D[i])     dQ[i] = scale sum_j dS[i,j] K[j]     dK[j] = scale sum_i dS[i,j] Q[i]

over the required scores; query heads that share a KV head add to the same dK and dV. With a cap c, where scores are
c tanh(s / c), dS is multiplied by 1 - (score / c)^2. A sink z, a score of every row without a value, takes a share of
P, and has the gradient dz = - sum_i exp(z - L[i]) D[i], L the log-sum-exp.

>>> import numpy as np
>>> ones = np.ones((1, 1, 4, 2))
>>> attention_gradients(ones, ones, ones, ones, Workload(n=4, d=2, mask="causal")).dv[0, 0, :, 0].round(3).tolist()
[2.083, 1.083, 0.583, 0.25]
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput
from attenio.quantities import show_shape
from attenio.reference.forward import SCORES_AT_ONCE, Segment, check_shapes, check_sinks, segments, softmax_beside
from attenio.workload import Workload

Float64 = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
Numbers = NDArray[np.generic]


class Gradients(NamedTuple):
    """Gradients with respect to queries, keys and values, shaped as they are."""

    dq: Floats
    dk: Floats
    dv: Floats


def attention_gradients(
    q: Numbers, k: Numbers, v: Numbers, do: Numbers, workload: Workload, *, sinks: Numbers | None = None
) -> Gradients:
    """The gradient of sum(O * dO) over (batch, heads, rows, width) arrays; rows that require no score get zero."""
    return gradients_and_sinks(q, k, v, do, workload, sinks=sinks)[0]


def gradients_and_sinks(
    q: Numbers, k: Numbers, v: Numbers, do: Numbers, workload: Workload, *, sinks: Numbers | None = None
) -> tuple[Gradients, Float64]:
    """The same, and the gradients of sinks, one a head; zeros without."""
    check_shapes(q, k, v, workload)
    check_sinks(workload, sinks)
    shape = (workload.batch, workload.heads, workload.queries, workload.value_dim)
    if np.shape(do) != shape:
        raise InvalidInput(
            f"do has shape {show_shape(np.shape(do))}; this workload needs (batch, heads, rows, width) = {shape}"
        )
    gradients, d_sinks = Gradients(*(np.zeros(np.shape(x)) for x in (q, k, v))), np.zeros(workload.heads)
    for batch in range(workload.batch):
        for head in range(workload.heads):
            kv_head = head // workload.group
            for segment in segments(workload):
                given = [
                    np.asarray(x[index], dtype=np.float64)
                    for x, index in (
                        (q, (batch, head, segment.rows)),
                        (k, (batch, kv_head, segment.keys)),
                        (v, (batch, kv_head, segment.keys)),
                        (do, (batch, head, segment.rows)),
                    )
                ]
                sink = None if sinks is None else float(sinks[head])
                dq, dk, dv, d_sink = _of_segment(segment, given, workload, sink)
                gradients.dq[batch, head, segment.rows] = dq
                gradients.dk[batch, kv_head, segment.keys] += dk
                gradients.dv[batch, kv_head, segment.keys] += dv
                d_sinks[head] += d_sink
    return gradients, d_sinks


def _of_segment(
    segment: Segment, given: list[Float64], workload: Workload, sink: float | None
) -> tuple[Float64, Float64, Float64, float]:
    """One head of one segment, some rows at a time so that no more than a few million scores exist at once."""
    (q, k, v, do), scale, cap, d_sink = given, workload.softmax_scale, workload.softcap, 0.0
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    pattern = segment.pattern
    height = max(1, SCORES_AT_ONCE // pattern.keys)
    for start in range(0, pattern.rows, height):
        stop = min(start + height, pattern.rows)
        needed = pattern.needed_keys(start, stop)
        if len(needed) == 0:
            continue
        scores = scale * (q[start:stop] @ k[needed].T)
        slope = np.ones(())
        if cap is not None:
            scores = cap * np.tanh(scores / cap)
            slope = 1.0 - (scores / cap) ** 2
        scores[~pattern.required(start, stop, needed)] = -np.inf
        P, weights = softmax_beside(scores, sink)
        dP = do[start:stop] @ v[needed].T
        D = (P * dP).sum(axis=1, keepdims=True)
        d_sink -= float((weights * D).sum())
        dS = P * (dP - D) * slope
        dq[start:stop] = scale * (dS @ k[needed])
        dk[needed] += scale * (dS.T @ q[start:stop])
        dv[needed] += P.T @ do[start:stop]
    return dq, dk, dv, d_sink
