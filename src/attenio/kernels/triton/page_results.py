"""Results of runs of keys in pages brought together, several at a time, and written."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def write_rows(
    O, Lse, Sinks, o_t, o_h, heads_count, sums, largest, total, tokens, heads, inside,
    WIDTH: tl.constexpr, W_PADDED: tl.constexpr, LOG2_E: tl.constexpr,
):  # fmt: skip
    """O / l and the natural log-sum-exp of rows, their sinks among the weights; zeros for rows that see nothing."""
    if Sinks is not None:
        sink = tl.load(Sinks + heads, mask=inside, other=0.0) * LOG2_E
        higher = tl.maximum(largest, sink)
        anchor = tl.where(higher == float("-inf"), 0.0, higher)
        fading = tl.exp2(largest - anchor)
        sums, total, largest = sums * fading[:, None], total * fading + tl.exp2(sink - anchor), higher
    columns = tl.arange(0, W_PADDED)
    quotient = sums / tl.where(total == 0.0, 1.0, total)[:, None]
    at = O + tokens[:, None].to(tl.int64) * o_t + heads[:, None].to(tl.int64) * o_h + columns[None, :]
    tl.store(at, quotient.to(O.dtype.element_ty), mask=inside[:, None] & (columns < WIDTH)[None, :])
    lse = tl.where(total == 0.0, float("-inf"), largest / LOG2_E + tl.log(tl.where(total == 0.0, 1.0, total)))
    tl.store(Lse + tokens * heads_count + heads, lse, mask=inside)


@triton.jit
def joined(sums, largest, total, Sums, Statistics, place, there, WIDTH: tl.constexpr, W_PADDED: tl.constexpr):
    """Rows together with results at places (of several runs, and of all rows), all of which are loaded at once."""
    columns = tl.arange(0, W_PADDED)
    tops = tl.load(Statistics + 2 * place, mask=there, other=float("-inf"), cache_modifier=".cg")
    weights = tl.load(Statistics + 2 * place + 1, mask=there, other=0.0, cache_modifier=".cg")
    parts = tl.load(
        Sums + place[:, :, None] * WIDTH + columns[None, None, :],
        mask=there[:, :, None] & (columns < WIDTH)[None, None, :], other=0.0, cache_modifier=".cg",
    )  # fmt: skip
    larger = tl.maximum(largest, tl.max(tops, 0))
    anchor = tl.where(larger == float("-inf"), 0.0, larger)
    mine, others = tl.exp2(largest - anchor), tl.exp2(tops - anchor[None, :])
    total = total * mine + tl.sum(weights * others, 0)
    sums = sums * mine[:, None] + tl.sum(parts * others[:, :, None], 0)
    return sums, larger, total


@triton.jit
def merge_pages_kernel(
    O, Lse, Sums, Statistics, Slots, SlotStarts, Sinks, o_t, o_h, heads_count,
    HEADS: tl.constexpr, AT_ONCE: tl.constexpr, WIDTH: tl.constexpr, W_PADDED: tl.constexpr, LOG2_E: tl.constexpr,
    OVERLAPS: tl.constexpr,
):  # fmt: skip
    """Results of a token from the slots that its items wrote, some heads at a time."""
    if OVERLAPS:
        gdc_wait()
        gdc_launch_dependents()
    blocks = tl.cdiv(heads_count, HEADS)
    token, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    heads = block * HEADS + tl.arange(0, HEADS)
    inside = heads < heads_count
    largest = tl.full([HEADS], float("-inf"), tl.float32)
    total = tl.zeros([HEADS], tl.float32)
    sums = tl.zeros([HEADS, W_PADDED], tl.float32)
    stop = tl.load(SlotStarts + token + 1)
    for first in range(tl.load(SlotStarts + token), stop, AT_ONCE):
        which = first + tl.arange(0, AT_ONCE)
        slots = tl.load(Slots + which, mask=which < stop, other=0).to(tl.int64)
        place = slots[:, None] * heads_count + heads[None, :]
        there = (which < stop)[:, None] & inside[None, :]
        sums, largest, total = joined(sums, largest, total, Sums, Statistics, place, there, WIDTH, W_PADDED)
    tokens = tl.full([HEADS], 0, tl.int32) + token
    write_rows(
        O, Lse, Sinks, o_t, o_h, heads_count, sums, largest, total, tokens, heads, inside, WIDTH, W_PADDED, LOG2_E
    )  # fmt: skip
