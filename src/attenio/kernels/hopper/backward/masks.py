"""Which rows see each key, and which tiles of keys each 64 rows see, as the backward kernels take it.

The rows that see a key are one range, and ranges of later keys neither begin nor end earlier: so it is with bands and
with packed sequences. Bands follow from two numbers; for packed sequences both ends of all ranges lie in memory.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.gpu.band import FAR, Band
from attenio.kernels.hopper.ranges import longest_first

# Rows of a matrix instruction: each so many rows have a range of key tiles of their own.
PART_ROWS = 64
_MOST_BANDS = 256
_known_bands: dict[tuple[Any, ...], Tensor] = {}
_read_by_graphs: dict[tuple[Any, ...], Tensor] = {}


class VisibleRows(NamedTuple):
    """Rows that see key j: j - above to j - below of a band; of packed sequences first_rows[j] to stop_rows[j] - 1.

    Both of these are (batch, keys), and already within the band. Tiles of keys may be in an ``order``, those first that
    most rows see.
    """

    band: Band
    first_rows: Tensor | None = None
    stop_rows: Tensor | None = None
    order: Tensor | None = None

    @classmethod
    def of(cls, problem: KernelProblem) -> "VisibleRows":
        """Rows of a problem that has a band and ranges of keys only."""
        seen, band, device = problem.visible, Band.of(problem), problem.query.device
        if seen.first is None or seen.stop is None:
            return cls(band)
        if device.type == "cuda" and seen.first.is_cuda and seen.stop.is_cuda:
            from attenio.kernels.hopper.range_kernels import visible_rows

            return cls(band, *visible_rows(seen.first, seen.stop, band, problem.batch, problem.keys))
        first, stop = seen.first.to(device), seen.stop.to(device)
        # A row that sees nothing has no weights, whatever its range: one that keeps ranges in order.
        sees = stop > first
        first = torch.where(sees, first, FAR).flip(1).cummin(1).values.flip(1).contiguous()
        stop = torch.where(sees, stop, 0).cummax(1).values.contiguous()
        keys = torch.arange(problem.keys, device=device).expand(first.shape[0], -1).contiguous()
        first_rows = torch.maximum(torch.searchsorted(stop, keys, right=True), keys - band.above)
        stop_rows = torch.minimum(torch.searchsorted(first, keys, right=True), keys - band.below + 1)
        both = (rows.to(torch.int32).expand(problem.batch, -1).contiguous() for rows in (first_rows, stop_rows))
        return cls(band, *both)

    def in_order(self, key_tile: int) -> "VisibleRows":
        """With tiles of so many keys in order, where the rows that see them lie in memory."""
        if self.first_rows is None or self.stop_rows is None:
            return self
        return self._replace(order=longest_first(self.first_rows, self.stop_rows, key_tile))


def key_tile_ranges(
    seen: VisibleRows, queries: int, keys: int, device: torch.device, *, key_tile: int, row_tile: int, rows: int
) -> Tensor:
    """First key tile and the one after the last that each 64 of so many rows see: (batch or 1, parts, 2)."""
    if seen.first_rows is None or seen.stop_rows is None:
        return _band_ranges(device, seen.band, queries, keys, key_tile, row_tile, rows)
    first_keys = torch.arange(0, keys, key_tile, device=device)
    last_keys = (first_keys + key_tile - 1).clamp(max=keys - 1)
    return _ranges(seen.first_rows[:, first_keys], seen.stop_rows[:, last_keys], queries, row_tile, rows)


def _band_ranges(device: torch.device, *kind: Any) -> Tensor:
    """Computed once for each kind, on the CPU: a copy from there is done when it returns, whichever stream reads it.

    What a captured CUDA graph reads is never forgotten. If it was not computed before, the graph computes its own, in
    its own memory, in a dozen small kernels.
    """
    on_gpu = device.type == "cuda"
    ranges = _known_bands.get((device, *kind))
    if on_gpu and torch.cuda.is_current_stream_capturing():
        return _of_band(device, *kind) if ranges is None else _read_by_graphs.setdefault((device, *kind), ranges)
    if ranges is None:
        if len(_known_bands) >= _MOST_BANDS:
            if on_gpu:
                torch.cuda.synchronize(device)  # launches of other streams may still read them
            _known_bands.clear()
        ranges = _known_bands[device, *kind] = _of_band(torch.device("cpu"), *kind).to(device)
    return ranges


def _of_band(
    device: torch.device, band: Band, queries: int, keys: int, key_tile: int, row_tile: int, rows: int
) -> Tensor:
    first_keys = torch.arange(0, keys, key_tile, device=device)[None]
    last_keys = (first_keys + key_tile - 1).clamp(max=keys - 1)
    return _ranges(first_keys - band.above, last_keys - band.below + 1, queries, row_tile, rows)


def _ranges(first: Tensor, stop: Tensor, queries: int, row_tile: int, rows: int) -> Tensor:
    """From the rows that see each key tile: (batch or 1, key tiles), in order."""
    first = first.clamp(0, queries - 1) // row_tile * row_tile
    stop = (stop.clamp(0, queries) + row_tile - 1) // row_tile * row_tile
    parts = torch.arange(0, rows, PART_ROWS, device=first.device, dtype=first.dtype)
    parts = parts.expand(first.shape[0], -1).contiguous()
    begin = torch.searchsorted(stop.contiguous(), parts, right=True)
    end = torch.searchsorted(first.contiguous(), parts, right=True)
    empty = begin >= end
    return torch.stack((begin.masked_fill(empty, FAR), end.masked_fill(empty, 0)), 2).to(torch.int32)
