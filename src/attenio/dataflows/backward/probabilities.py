"""Probabilities as a forward pass saves them, from the definition."""

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.inputs import Inputs
from attenio.reference import segments
from attenio.reference.forward import softmax
from attenio.workload import Workload


def probabilities_of(
    workload: Workload, inputs: Inputs, arithmetic: Arithmetic
) -> dict[tuple[int, int, int], NDArray[np.float32]]:
    """P of every batch, head and segment in the accumulator's type, 0 where a score is not required."""
    probabilities = {}
    for batch in range(workload.batch):
        for head in range(workload.heads):
            for number, segment in enumerate(segments(workload)):
                q = inputs.q[batch, head, segment.rows].astype(np.float64)
                k = inputs.k[batch, head // workload.group, segment.keys].astype(np.float64)
                scores = workload.softmax_scale * (q @ k.T)
                scores[~segment.pattern.required(0, segment.pattern.rows, np.arange(segment.pattern.keys))] = -np.inf
                P = softmax(scores).astype(np.float32)
                arithmetic.keep(P)
                probabilities[batch, head, number] = P
    return probabilities
