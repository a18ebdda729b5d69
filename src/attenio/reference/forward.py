"""The definition of attention, in float64: what every dataflow must compute.

    O[i] = sum over required j of softmax_j(scale * Q[i].K[j]) V[j],     and O[i] = 0 when row i requires no score.

>>> import numpy as np
>>> from attenio.workload import Workload
>>> ones = np.ones((1, 1, 4, 2))
>>> attention(ones, ones, ones, Workload(n=4, d=2, mask="causal")).shape
(1, 1, 4, 2)
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput
from attenio.masks import Documents
from attenio.masks.patterns import Band, Pattern
from attenio.quantities import show_shape
from attenio.workload import Workload

Float64 = NDArray[np.float64]
Rows = tuple[slice, Float64, Float64]

# Scores held at once by the definition: 32 MiB of float64, whatever the sequence length.
SCORES_AT_ONCE = 2**22


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Rows and keys of one sequence that only see each other: the whole sequence, or one document of it."""

    pattern: Pattern
    rows: slice
    keys: slice


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some rows of the output of one head of one sequence, and the log-sum-exp of their scores."""

    batch: int
    head: int
    rows: slice
    values: Float64
    log_sum_exp: Float64


def segments(workload: Workload) -> Iterator[Segment]:
    """The separate problems of one sequence, in order (unlike ``separate_patterns``, which counts equal documents)."""
    mask = workload.mask
    if not isinstance(mask, Documents):
        ((pattern, _),) = workload.separate_patterns
        yield Segment(pattern=pattern, rows=slice(0, workload.queries), keys=slice(0, workload.keys))
        return
    row = key = 0
    make = Band.causal if mask.causal else Band.dense
    for rows, keys in zip(mask.lengths, mask.key_lengths, strict=True):
        yield Segment(pattern=make(rows, keys), rows=slice(row, row + rows), keys=slice(key, key + keys))
        row, key = row + rows, key + keys


def attention(
    q: NDArray[np.generic],
    k: NDArray[np.generic],
    v: NDArray[np.generic],
    workload: Workload,
    *,
    sinks: NDArray[np.generic] | None = None,
) -> Float64:
    """Attention by its definition over (batch, heads, rows, width) arrays; rows that require no score are zero.

    A sink, one a head, is a score of every row that has no value. With a cap c scores s become c tanh(s / c).
    """
    output = np.zeros((workload.batch, workload.heads, workload.queries, workload.value_dim))
    for block in attention_blocks(q, k, v, workload, sinks=sinks):
        output[block.batch, block.head, block.rows] = block.values
    return output


def attention_blocks(
    q: NDArray[np.generic],
    k: NDArray[np.generic],
    v: NDArray[np.generic],
    workload: Workload,
    *,
    sinks: NDArray[np.generic] | None = None,
) -> Iterator[Block]:
    """The same, some rows at a time, so that no more than a few million scores exist at once."""
    check_shapes(q, k, v, workload)
    check_sinks(workload, sinks)
    for batch in range(workload.batch):
        for kv_head in range(workload.kv_heads):
            for segment in segments(workload):
                keys = np.asarray(k[batch, kv_head, segment.keys], dtype=np.float64)
                values = np.asarray(v[batch, kv_head, segment.keys], dtype=np.float64)
                for head in range(kv_head * workload.group, (kv_head + 1) * workload.group):
                    queries = np.asarray(q[batch, head, segment.rows], dtype=np.float64) * workload.softmax_scale
                    beside = None if sinks is None else float(sinks[head]), workload.softcap
                    for rows, output, lse in _rows_of(segment.pattern, (queries, keys, values), *beside):
                        shifted = slice(segment.rows.start + rows.start, segment.rows.start + rows.stop)
                        yield Block(batch=batch, head=head, rows=shifted, values=output, log_sum_exp=lse)


def _rows_of(
    pattern: Pattern, arrays: tuple[Float64, Float64, Float64], sink: float | None, softcap: float | None
) -> Iterator[Rows]:
    queries, keys, values = arrays
    height = max(1, SCORES_AT_ONCE // pattern.keys)
    for start in range(0, pattern.rows, height):
        stop = min(start + height, pattern.rows)
        needed = pattern.needed_keys(start, stop)
        if len(needed) == 0:
            yield slice(start, stop), np.zeros((stop - start, values.shape[1])), np.full(stop - start, -np.inf)
            continue
        scores = queries[start:stop] @ keys[needed].T
        if softcap is not None:
            scores = softcap * np.tanh(scores / softcap)
        scores[~pattern.required(start, stop, needed)] = -np.inf
        largest = scores.max(axis=1, keepdims=True)
        if sink is not None:
            largest = np.maximum(largest, sink)
        weights = np.exp(scores - np.where(np.isneginf(largest), 0.0, largest))
        total = weights.sum(axis=1, keepdims=True)
        if sink is not None:
            total += np.exp(sink - largest)
        with np.errstate(divide="ignore"):  # a row without required scores has log-sum-exp -inf
            lse = largest[:, 0] + np.log(total[:, 0])
        yield slice(start, stop), (weights @ values[needed]) / np.where(total == 0.0, 1.0, total), lse


def softmax(scores: Float64) -> Float64:
    """Probabilities of every row of scores, 0 where a score is -inf; all zero where every one is."""
    return softmax_beside(scores, None)[0]


def softmax_beside(scores: Float64, sink: float | None) -> tuple[Float64, Float64]:
    """The same with a sink beside the scores, and the probability of that, (rows, 1); 0 without one."""
    beside = -np.inf if sink is None else sink
    largest = np.maximum(scores.max(axis=1, keepdims=True), beside)
    anchor = np.where(np.isneginf(largest), 0.0, largest)
    weights, of_sink = np.exp(scores - anchor), np.exp(beside - anchor)
    total = weights.sum(axis=1, keepdims=True) + of_sink
    known = np.where(total == 0.0, 1.0, total)
    return np.asarray(weights / known), np.asarray(of_sink / known)


def check_sinks(workload: Workload, sinks: NDArray[np.generic] | None) -> None:
    """Refuse sinks where the workload has none, and a workload that has them without."""
    if workload.sinks != (sinks is not None):
        raise InvalidInput("a workload with sinks needs one a head, and no other takes any; give sinks, or leave them")


def check_shapes(q: NDArray[np.generic], k: NDArray[np.generic], v: NDArray[np.generic], workload: Workload) -> None:
    """Refuse arrays that are not those of the workload."""
    expected = {
        "q": (q, (workload.batch, workload.heads, workload.queries, workload.d)),
        "k": (k, (workload.batch, workload.kv_heads, workload.keys, workload.d)),
        "v": (v, (workload.batch, workload.kv_heads, workload.keys, workload.value_dim)),
    }
    for name, (array, shape) in expected.items():
        if np.shape(array) != shape:
            raise InvalidInput(
                f"{name} has shape {show_shape(np.shape(array))};"
                f" this workload needs (batch, heads, rows, width) = {shape}"
            )
