"""Dropout whose choice depends on a seed and on which score it is, and not on how the scores are cut into tiles."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attenio.kernels.call.visibility import ProblemTile

# splitmix64 (Steele, Lea, Flood 2014): a counter becomes 64 well-mixed bits in two multiplications.
_STEPS = ((30, -0x40A7B892E31B1A47), (27, -0x6B2FB644ECCEEE15))
_BITS = 24


@dataclass(frozen=True, kw_only=True)
class Dropout:
    """Every weight is dropped with this probability p, and the others are multiplied by 1/(1 - p)."""

    probability: float
    seed: int

    def factors(self, part: ProblemTile, *, group: int, shape: tuple[int, int, int], like: Tensor) -> Tensor:
        """Zeros and 1/(1 - p) for a part, as (batch, KV heads, positions, group, keys).

        ``shape`` is (KV heads, queries, keys) of the whole problem.
        """
        if self.probability >= 1.0:
            return like.new_zeros(())
        heads, queries, keys = shape
        batch, head, row, key = (torch.arange(cut.start, cut.stop) for cut in part)
        head = (batch[:, None] * heads + head)[:, :, None, None, None]
        row = row[:, None, None] * keys + key
        which = (head * group + torch.arange(group)[:, None]) * (queries * keys) + row
        x = which + self.seed
        for shift, factor in _STEPS:
            x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
        stays = ((x >> 31) & ((1 << _BITS) - 1)) >= int(self.probability * 2**_BITS)
        return stays.to(like.dtype) / (1.0 - self.probability)
