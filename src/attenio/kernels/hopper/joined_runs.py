"""Results of runs of keys brought together: the second launch of ``split_latents``, whose rows are too wide and too
many for the last of its programs to do it."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
from triton import language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit(do_not_specialize=["splits", "row_count"])
def join_kernel(
    Partial, PartLargest, PartTotal, O, Largest, Total, splits, row_count,
    COLUMNS: tl.constexpr, WIDTH: tl.constexpr, AT_ONCE: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    """One row of the output from those of all runs; a program writes some of its columns."""
    row, part = tl.program_id(0) // (WIDTH // COLUMNS), tl.program_id(0) % (WIDTH // COLUMNS)
    batch_head, within = row // row_count, row % row_count
    at = batch_head.to(tl.int64) * splits * row_count + within
    columns = part * COLUMNS + tl.arange(0, COLUMNS)
    if OVERLAPS:
        gdc_wait()
        gdc_launch_dependents()
    largest, total = float("-inf"), 0.0
    acc = tl.zeros([COLUMNS], tl.float32)
    for start in range(0, splits, AT_ONCE):
        split = start + tl.arange(0, AT_ONCE)
        inside = split < splits
        place = at + split * row_count
        tops = tl.load(PartLargest + place, mask=inside, other=float("-inf"))
        totals = tl.load(PartTotal + place, mask=inside, other=0.0)
        parts = tl.load(Partial + place[:, None] * WIDTH + columns[None, :], mask=inside[:, None], other=0.0)
        larger = tl.maximum(largest, tl.max(tops, 0))
        anchor = tl.where(larger == float("-inf"), 0.0, larger)
        rescale = tl.exp2(largest - anchor)
        weights = tl.exp2(tops - anchor) * totals
        acc = acc * rescale + tl.sum(weights[:, None] * parts.to(tl.float32), 0)
        total = total * rescale + tl.sum(weights, 0)
        largest = larger
    acc = acc / tl.where(total == 0.0, 1.0, total)
    tl.store(O + row.to(tl.int64) * WIDTH + columns, acc.to(O.dtype.element_ty))
    if part == 0:
        tl.store(Largest + row, largest)
        tl.store(Total + row, total)
