"""The definition of the gradient of attention, in float64: what every backward dataflow must compute.

    dV[j] = sum_i P[i,j] dO[i]            dP[i,j] = dO[i].V[j]          D[i] = sum_j P[i,j] dP[i,j] = dO[i].O[i]
    dS[i,j] = P[i,j] (dP[i,j] - D[i])     dQ[i] = scale sum_j dS[i,j] K[j]     dK[j] = scale sum_i dS[i,j] Q[i]

over the required scores; query heads that share a KV head add to the same dK and dV.

>>> import numpy as np
>>> ones = np.ones((1, 1, 4, 2))
>>> attention_gradients(ones, ones, ones, ones, Workload(n=4, d=2, mask="causal")).dv[0, 0, :, 0].round(3).tolist()
[2.083, 1.083, 0.583, 0.25]
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput
from attenio.reference.forward import SCORES_AT_ONCE, Segment, check_shapes, segments, softmax
from attenio.workload import Workload

Float64 = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]
Numbers = NDArray[np.generic]


class Gradients(NamedTuple):
    """Gradients with respect to queries, keys and values, shaped as they are."""

    dq: Floats
    dk: Floats
    dv: Floats


def attention_gradients(q: Numbers, k: Numbers, v: Numbers, do: Numbers, workload: Workload) -> Gradients:
    """The gradient of sum(O * dO) over (batch, heads, rows, width) arrays; rows that require no score get zero."""
    check_shapes(q, k, v, workload)
    shape = (workload.batch, workload.heads, workload.queries, workload.value_dim)
    if np.shape(do) != shape:
        raise InvalidInput(f"do has shape {np.shape(do)}; this workload needs (batch, heads, rows, width) = {shape}")
    gradients = Gradients(*(np.zeros(np.shape(x)) for x in (q, k, v)))
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
                dq, dk, dv = _of_segment(segment, given, workload.softmax_scale)
                gradients.dq[batch, head, segment.rows] = dq
                gradients.dk[batch, kv_head, segment.keys] += dk
                gradients.dv[batch, kv_head, segment.keys] += dv
    return gradients


def _of_segment(segment: Segment, given: list[Float64], scale: float) -> tuple[Float64, Float64, Float64]:
    """One head of one segment, some rows at a time so that no more than a few million scores exist at once."""
    q, k, v, do = given
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    pattern = segment.pattern
    height = max(1, SCORES_AT_ONCE // pattern.keys)
    for start in range(0, pattern.rows, height):
        stop = min(start + height, pattern.rows)
        needed = pattern.needed_keys(start, stop)
        if len(needed) == 0:
            continue
        scores = scale * (q[start:stop] @ k[needed].T)
        scores[~pattern.required(start, stop, needed)] = -np.inf
        P = softmax(scores)
        dP = do[start:stop] @ v[needed].T
        dS = P * (dP - (P * dP).sum(axis=1, keepdims=True))
        dq[start:stop] = scale * (dS @ k[needed])
        dk[needed] += scale * (dS.T @ q[start:stop])
        dv[needed] += P.T @ do[start:stop]
    return dq, dk, dv
