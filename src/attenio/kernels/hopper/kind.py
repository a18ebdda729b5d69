"""The kind of a forward pass: all of it that tiles and schedules depend on."""

from functools import cache
from typing import NamedTuple

import torch

from attenio.catalogue import machine_named
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.tiles import HopperTiles, computed_width

# Programs that walk keys together synchronise every PACE key tiles.
PACE = 32


class ForwardKind(NamedTuple):
    """What tiles and schedules depend on."""

    batch_heads: int
    queries: int
    keys: int
    band: Band
    d: int
    width: int
    dtype: torch.dtype
    device: torch.device
    capped: bool = False
    repeats: bool = False
    # Rows of a packed sequence, to the power of two below; 0 where nobody knows.
    segment: int = 0

    @classmethod
    def of(cls, problem: KernelProblem) -> "ForwardKind":
        """The kind of a problem."""
        batch, kv_heads, group, queries, d = problem.query.shape
        return cls(
            batch * kv_heads * group, queries, problem.keys, Band.of(problem), d, problem.value.shape[3],
            problem.query.dtype, problem.query.device, bool(problem.softcap), problem.deterministic,
            _power_below(queries // problem.visible.segments) if problem.visible.segments else 0,
        )  # fmt: skip

    @property
    def columns(self) -> tuple[int, int]:
        """Columns of keys and of values that are computed with."""
        return computed_width(self.d), computed_width(self.width)

    @property
    def head_bytes(self) -> int:
        """Keys and values of one head."""
        return self.keys * int(self.dtype.itemsize) * (self.d + self.width)

    @property
    def leaves_cache(self) -> bool:
        """Whether a head fills more than half of L2, whose two halves hold copies for the SMs near them."""
        return 2 * self.head_bytes > cache_bytes()

    def pace_of(self, tiles: HopperTiles) -> int:
        """Key tiles after which programs that walk keys together wait for each other, 0 where they do not."""
        together = tiles.keeps_pace and self.band.is_dense and self.leaves_cache
        return PACE if together and self.keys % tiles.key_tile == 0 else 0

    def has_masks(self, tiles: HopperTiles) -> bool:
        """Whether some score of a tile is not required."""
        return not self.band.is_dense or self.keys % tiles.key_tile != 0


def _power_below(rows: int) -> int:
    return 1 << max(0, rows.bit_length() - 1)


@cache
def cache_bytes() -> int:
    """Of the L2."""
    return machine_named("h200").levels[1].capacity_bytes or 0
