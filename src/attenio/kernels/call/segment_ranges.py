"""Ranges of keys of packed sequences in one kernel: as torch's operations they take longer than short sequences do."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS = 128


@triton.jit(
    do_not_specialize=["queries", "segments", "halvings", "left", "right"],
    do_not_specialize_on_alignment=["Mine", "Theirs", "First", "Stop"],
)
def segment_ranges_kernel(
    Mine, Theirs, First, Stop, queries, segments, halvings, left, right, CAUSAL: tl.constexpr, ROWS: tl.constexpr
):
    """First key and the one after the last of ROWS queries, by cumulative lengths of queries and of keys."""
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    low, high = tl.zeros([ROWS], tl.int32), tl.zeros([ROWS], tl.int32) + segments
    for _ in range(halvings):  # the first sequence that ends after the row
        middle = (low + high) // 2
        ends = tl.load(Mine + 1 + middle, mask=low < high, other=0).to(tl.int64) <= rows
        low, high = tl.where((low < high) & ends, middle + 1, low), tl.where((low < high) & ~ends, middle, high)
    segment = tl.minimum(low, segments - 1)
    start, end = tl.load(Mine + segment).to(tl.int64), tl.load(Mine + segment + 1).to(tl.int64)
    first, stop = tl.load(Theirs + segment).to(tl.int64), tl.load(Theirs + segment + 1).to(tl.int64)
    below, above = first, stop
    place = first + (rows - start) + (stop - first) - (end - start)  # the last query of a sequence is at its last key
    if left >= 0:
        below = tl.maximum(first, place - left)
    if right >= 0:
        above = tl.minimum(stop, place + right + 1)
    if CAUSAL:  # the first query is at the first key
        above = tl.minimum(above, first + rows - start + 1)
    inside = rows < tl.load(Mine + segments).to(tl.int64)  # of lengths that could not be read
    above = tl.where(inside, tl.maximum(above, below), stop)
    tl.store(First + rows, tl.where(inside, below, stop), mask=rows < queries)
    tl.store(Stop + rows, above, mask=rows < queries)


def on_gpu(mine: Tensor, theirs: Tensor, queries: int, window: tuple[int, int], *, is_causal: bool) -> Tensor:
    """Both ends of the ranges (2, queries)."""
    ranges = torch.empty((2, queries), dtype=torch.int64, device=mine.device)
    segments = mine.shape[0] - 1
    if queries:
        with torch.cuda.device_of(mine):  # launches go to the current device
            segment_ranges_kernel[(-(-queries // _ROWS),)](
                mine.contiguous(), theirs.contiguous(), ranges[0], ranges[1], queries, segments,
                segments.bit_length(), *window, CAUSAL=is_causal, ROWS=_ROWS,
            )  # fmt: skip
    return ranges
