"""Ranges of keys that queries see, as the forward kernels take them: those of packed sequences.

Neither end falls from one query to the next, also of queries that see nothing: so ``segment_ranges`` finds them.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.tiles import ROWS


def ends_of(problem: KernelProblem) -> tuple[Tensor, Tensor]:
    """First key and the one after the last of every query (batch or 1, queries), one row behind the other."""
    seen, device = problem.visible, problem.query.device
    assert seen.first is not None and seen.stop is not None
    return seen.first.to(device, torch.int64).contiguous(), seen.stop.to(device, torch.int64).contiguous()


def longest_first(first: Tensor, stop: Tensor, row_tile: int) -> Tensor:
    """Tiles of so many rows, those first whose keys are furthest apart; of the first sequence of the batch.

    Programs take them in this order as they are free, and so end together.
    """
    if first.is_cuda:
        from attenio.kernels.hopper import range_kernels

        return range_kernels.longest_first(first, stop, row_tile)
    tiles = zip(first[0].split(row_tile), stop[0].split(row_tile), strict=True)
    apart = torch.stack([stops[-1] - firsts[0] for firsts, stops in tiles])
    return apart.clamp(min=0).argsort(descending=True, stable=True).to(torch.int32)


class VisibleKeys(NamedTuple):
    """First key and the one after the last of every query within a band (batch or 1, queries), in 32 bits, and the
    least and the largest of both for every 64 of them (batch or 1, blocks, 4): so Gluon's kernel takes them."""

    first: Tensor
    stop: Tensor
    bounds: Tensor

    @classmethod
    def of(cls, problem: KernelProblem, band: Band) -> "VisibleKeys":
        """Those of a problem within its band."""
        seen, device, queries = problem.visible, problem.query.device, problem.queries
        assert seen.first is not None and seen.stop is not None
        if device.type == "cuda" and seen.first.is_cuda and seen.stop.is_cuda:
            from attenio.kernels.hopper.range_kernels import visible_keys

            return cls(*visible_keys(seen.first, seen.stop, band, problem.keys))
        at = torch.arange(queries, device=device)
        first = torch.maximum(seen.first.to(device), (at + band.below).clamp(min=0))
        stop = torch.minimum(seen.stop.to(device), (at + band.above + 1).clamp(max=problem.keys))
        both = torch.stack((first, stop), 1).to(torch.int32)
        padded = torch.arange(-(-queries // ROWS) * ROWS, device=device).clamp(max=queries - 1)
        low, high = both[:, :, padded].unflatten(2, (-1, ROWS)).aminmax(dim=3)
        bounds = torch.stack((low[:, 0], high[:, 0], low[:, 1], high[:, 1]), 2)
        return cls(both[:, 0].contiguous(), both[:, 1].contiguous(), bounds)
