"""Ranges that queries see and that see keys, each in one kernel: short packed sequences take no longer than a few."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, no-untyped-call"

import torch
import triton
import triton.language as tl
from torch import Tensor

from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.tiles import ROWS

# Keys of a program; row tiles that a program places, and those that it compares with them at a time.
_KEYS, _PLACED, _COMPARED = 128, 16, 512
_NUMBERS = ["queries", "keys", "below", "above", "halvings"]
_PLACES = ["First", "Stop", "Firsts", "Stops", "Bounds", "FirstRows", "StopRows"]


@triton.jit(do_not_specialize=_NUMBERS, do_not_specialize_on_alignment=_PLACES)
def visible_keys_kernel(First, Stop, Firsts, Stops, Bounds, queries, keys, below, above, ROWS: tl.constexpr):
    """Both ends of ROWS rows within a band, in 32 bits, and the least and the largest of them."""
    blocks = tl.cdiv(queries, ROWS)
    batch = (tl.program_id(0) // blocks).to(tl.int64)
    rows = tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)
    at = tl.minimum(rows, queries - 1)  # what is past the last row is as the last row
    first = tl.maximum(tl.load(First + batch * queries + at), tl.maximum(at + below, 0)).to(tl.int32)
    stop = tl.minimum(tl.load(Stop + batch * queries + at), tl.minimum(at + above + 1, keys)).to(tl.int32)
    tl.store(Firsts + batch * queries + rows, first, mask=rows < queries)
    tl.store(Stops + batch * queries + rows, stop, mask=rows < queries)
    bounds = Bounds + 4 * tl.program_id(0).to(tl.int64)
    tl.store(bounds, tl.min(first, 0))
    tl.store(bounds + 1, tl.max(first, 0))
    tl.store(bounds + 2, tl.min(stop, 0))
    tl.store(bounds + 3, tl.max(stop, 0))


def visible_keys(first: Tensor, stop: Tensor, band: Band, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    """First keys, those after the last, and bounds of 64 rows each; ranges are (batch or 1, queries)."""
    batch, queries = first.shape
    blocks = -(-queries // ROWS)
    both = torch.empty((2, batch, queries), dtype=torch.int32, device=first.device)
    bounds = torch.empty((batch, blocks, 4), dtype=torch.int32, device=first.device)
    visible_keys_kernel[(blocks * batch,)](
        first.contiguous(), stop.contiguous(), both[0], both[1], bounds, queries, keys, band.below, band.above,
        ROWS=ROWS,
    )  # fmt: skip
    return both[0], both[1], bounds


@triton.jit
def _keys_apart(First, Stop, tile, queries, row_tile):
    """How far apart the first and the last key are that rows of each tile see; no end falls from row to row."""
    first = tl.load(First + tl.minimum(tile * row_tile, queries - 1))
    stop = tl.load(Stop + tl.minimum(tile * row_tile + row_tile, queries) - 1)
    return tl.maximum(stop - first, 0).to(tl.int32)


@triton.jit(
    do_not_specialize=["queries", "tiles", "row_tile"], do_not_specialize_on_alignment=["First", "Stop", "Order"]
)
def longest_first_kernel(First, Stop, Order, queries, tiles, row_tile, PLACED: tl.constexpr, COMPARED: tl.constexpr):
    """The places of PLACED row tiles in the order of how far apart their keys are."""
    tile = tl.program_id(0) * PLACED + tl.arange(0, PLACED)
    mine, place = _keys_apart(First, Stop, tile, queries, row_tile), tl.zeros([PLACED], tl.int32)
    for start in range(0, tiles, COMPARED):
        other = start + tl.arange(0, COMPARED)
        theirs = _keys_apart(First, Stop, other, queries, row_tile)
        longer = theirs[None, :] > mine[:, None]
        before = (theirs[None, :] == mine[:, None]) & (other[None, :] < tile[:, None])
        place += tl.sum(((longer | before) & (other < tiles)[None, :]).to(tl.int32), 1)
    tl.store(Order + place, tile, mask=tile < tiles)


def longest_first(first: Tensor, stop: Tensor, row_tile: int) -> Tensor:
    """Tiles of so many rows, those first whose keys are furthest apart; ranges are (batch or 1, queries)."""
    queries = first.shape[1]
    tiles = -(-queries // row_tile)
    order = torch.empty(tiles, dtype=torch.int32, device=first.device)
    longest_first_kernel[(-(-tiles // _PLACED),)](
        first, stop, order, queries, tiles, row_tile, PLACED=_PLACED, COMPARED=_COMPARED
    )
    return order


@triton.jit
def _rows_until(Ends, key, queries, halvings):
    """Of each key, how many rows have an end at it or before it; ends never fall from one row to the next."""
    low, high = tl.zeros_like(key), tl.zeros_like(key) + queries
    for _ in range(halvings):
        middle, is_open = (low + high) // 2, low < high
        before = tl.load(Ends + middle, mask=is_open, other=0) <= key
        low, high = tl.where(is_open & before, middle + 1, low), tl.where(is_open & ~before, middle, high)
    return low


@triton.jit(do_not_specialize=_NUMBERS, do_not_specialize_on_alignment=_PLACES)
def visible_rows_kernel(
    First, Stop, FirstRows, StopRows, queries, keys, below, above, halvings, BATCHES: tl.constexpr, KEYS: tl.constexpr
):
    """Of KEYS keys, the first row that sees each and the one after the last, within a band."""
    blocks = tl.cdiv(keys, KEYS)
    batch = (tl.program_id(0) // blocks).to(tl.int64)
    key = tl.program_id(0) % blocks * KEYS + tl.arange(0, KEYS)
    of = batch * queries if BATCHES else 0
    first = tl.maximum(_rows_until(Stop + of, key, queries, halvings), key - above)
    stop = tl.minimum(_rows_until(First + of, key, queries, halvings), key - below + 1)
    tl.store(FirstRows + batch * keys + key, first, mask=key < keys)
    tl.store(StopRows + batch * keys + key, stop, mask=key < keys)


def visible_rows(first: Tensor, stop: Tensor, band: Band, batch: int, keys: int) -> tuple[Tensor, Tensor]:
    """First rows, and those after the last, of every key (batch, keys); ranges are (batch or 1, queries).

    Both ends never fall from one query to the next, also of those that see nothing: so ``segment_ranges`` finds them.
    """
    rows = torch.empty((2, batch, keys), dtype=torch.int32, device=first.device)
    queries = first.shape[1]
    visible_rows_kernel[(-(-keys // _KEYS) * batch,)](
        first.contiguous(), stop.contiguous(), rows[0], rows[1], queries, keys, band.below, band.above,
        queries.bit_length(), BATCHES=first.shape[0] > 1, KEYS=_KEYS,
    )  # fmt: skip
    return rows[0], rows[1]
