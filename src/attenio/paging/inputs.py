"""Inputs on pages, keys and values in as many bits as the workload says, and the definition in float64."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.elements import ElementType
from attenio.paging.workload import PagedWorkload
from attenio.quantities import checked_count

Float32 = NDArray[np.float32]


class PagedInputs(NamedTuple):
    """Queries (heads, new tokens of all requests, d); keys and values (KV heads, pages, keys of a page, width); scales.

    Entries of keys and values in fewer bits are whole numbers, and a scale (KV heads, pages, 2) of each page is what
    those of keys and of values are multiplied by; ones where entries take a word.
    """

    q: Float32
    k: Float32
    v: Float32
    scales: Float32
    sinks: Float32


def random_paged_inputs(workload: PagedWorkload, seed: int = 0) -> PagedInputs:
    """Normal random inputs, rounded to the element type, or to whole numbers of as many bits as keys take.

    >>> random_paged_inputs(PagedWorkload(lengths=(5, 9), page_size=4, d=2)).k.shape
    (1, 5, 4, 2)
    """
    draw = np.random.default_rng(checked_count("seed", seed, least=0, most=2**128 - 1))
    pages = 1 + max(max(row) for row in workload.table)
    q = draw.standard_normal((workload.heads, sum(workload.new), workload.d), dtype=np.float32)
    k = draw.standard_normal((workload.kv_heads, pages, workload.page_size, workload.d), dtype=np.float32)
    v = draw.standard_normal((*k.shape[:-1], workload.value_dim), dtype=np.float32)
    v = k[..., : workload.value_dim] if workload.values_in_keys else v
    scales = np.ones((workload.kv_heads, pages, 2), dtype=np.float32)
    sinks = workload.dtype.rounded(draw.standard_normal(workload.heads if workload.sinks else 0))
    if workload.has_scales:
        largest = np.float32(2 ** (workload.kv_bits - 1) - 1)
        for at, values in enumerate((k, k if workload.values_in_keys else v)):
            scales[..., at] = np.abs(values).max((2, 3)) / largest
        k, v = (np.rint(x / scales[:, :, None, None, at]).astype(np.float32) for at, x in enumerate((k, v)))
    else:
        k, v = workload.dtype.rounded(k), workload.dtype.rounded(v)
    return PagedInputs(workload.dtype.rounded(q), k, v, scales, sinks)


def paged_attention(inputs: PagedInputs, workload: PagedWorkload) -> NDArray[np.float64]:
    """Outputs (heads, new tokens, value_dim) by the definition, over keys and values gathered and scaled."""
    q, k, v, scales, sinks = (np.asarray(x, dtype=np.float64) for x in inputs)
    k, v = k * scales[:, :, None, None, 0], v * scales[:, :, None, None, 1]
    output = np.zeros((workload.heads, sum(workload.new), workload.value_dim))
    ends = np.cumsum(workload.new)
    for request, (end, new, length) in enumerate(zip(ends, workload.new, workload.lengths, strict=True)):
        pages = list(workload.table[request])
        seen = np.arange(length, dtype=np.int64) <= length - new + np.arange(new, dtype=np.int64)[:, None]
        for head in range(workload.heads):
            keys, values = (x[head // workload.group, pages].reshape(-1, x.shape[-1])[:length] for x in (k, v))
            scores = workload.softmax_scale * (q[head, end - new : end] @ keys.T)
            if workload.softcap is not None:
                scores = workload.softcap * np.tanh(scores / workload.softcap)
            scores = np.where(seen, scores, -np.inf)
            most = scores.max(1, keepdims=True)
            most = np.maximum(most, sinks[head]) if workload.sinks else most
            weights = np.exp(scores - most)
            total = weights.sum(1, keepdims=True) + (np.exp(sinks[head] - most) if workload.sinks else 0.0)
            output[head, end - new : end] = weights @ values / total
    return output


def accumulator_of(workload: PagedWorkload) -> ElementType:
    """The type that sums are kept in."""
    return ElementType.FP32 if workload.accumulator is None else workload.accumulator
