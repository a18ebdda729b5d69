"""Ranges of keys that queries see, as the forward kernel takes them: those of packed sequences."""

from typing import NamedTuple

import torch
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.tiles import ROWS


class VisibleKeys(NamedTuple):
    """First key and the one after the last of every query (batch or 1, queries), and the least and the largest of both
    for every 64 of them (batch or 1, blocks, 4): what a consumer needs to know which key tiles it sees."""

    first: Tensor
    stop: Tensor
    bounds: Tensor

    @property
    def steps(self) -> tuple[int, int]:
        """Rows and blocks of them from one sequence of the batch to the next; none where all have the same."""
        return (self.first.stride(0), self.bounds.shape[1]) if self.first.shape[0] > 1 else (0, 0)

    def longest_first(self, row_tile: int) -> Tensor:
        """Tiles of so many rows, those first whose keys are furthest apart; of the first sequence of the batch."""
        if self.bounds.is_cuda:
            from attenio.kernels.hopper.range_kernels import longest_first

            return longest_first(self.bounds, row_tile // ROWS)
        tiles = [part[:, 3].max() - part[:, 0].min() for part in self.bounds[0].split(row_tile // ROWS)]
        return torch.stack(tiles).clamp(min=0).argsort(descending=True, stable=True).to(torch.int32)

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
