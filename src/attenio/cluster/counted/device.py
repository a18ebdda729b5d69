"""One rank of a counted run: its memory, its tokens and the room it has taken."""

from contextlib import ExitStack
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.grid import Grid, Place
from attenio.cluster.partition import Sharding, positions
from attenio.masks import Causal, Dense, SlidingWindow
from attenio.masks.patterns import Band
from attenio.masks.patterns.of_mask import band_of
from attenio.memory import FastMemory
from attenio.workload import Workload

Values = NDArray[np.float32]
Tokens = NDArray[np.int64]
Seen = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What all ranks of a run share."""

    workload: Workload
    grid: Grid
    sharding: Sharding
    passes: int

    @property
    def is_step(self) -> bool:
        """Whether a forward pass keeps what the backward pass after it needs."""
        return self.workload.is_training

    @property
    def rows_heads(self) -> int:
        """Query heads of a head group."""
        return self.workload.heads // self.grid.heads

    @property
    def keys_heads(self) -> int:
        """KV heads of a head group."""
        return self.workload.kv_heads // self.grid.heads

    @property
    def band(self) -> Band:
        """Which keys a query sees."""
        mask = self.workload.mask
        assert isinstance(mask, Dense | Causal | SlidingWindow)
        return band_of(mask, queries=self.workload.queries, keys=self.workload.keys)

    def own(self, rank: int, length: int) -> Tokens:
        """The positions of a rank's own tokens."""
        return positions(length, self.grid.devices, rank, self.sharding)

    def placed(self, rank: int, length: int) -> Tokens:
        """Those of all its head peers, one after the other."""
        return np.concatenate([self.own(peer, length) for peer in self.grid.head_peers(rank)])

    def part_of_peer(self, rank: int, peer: int, length: int) -> slice:
        """Where a head peer's tokens lie among them."""
        start = 0
        for each in self.grid.head_peers(rank):
            count = len(self.own(each, length))
            if each == peer:
                return slice(start, start + count)
            start += count
        raise AssertionError(f"rank {peer} is no head peer of {rank}")


@dataclass(kw_only=True)
class Device:
    """A rank with its memory; ``arrays`` are what it holds, (batch, heads, tokens, width) each."""

    setting: Setting
    rank: int
    memory: FastMemory
    stack: ExitStack
    arrays: dict[str, Values] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """Where the rank is in the grid."""
        return self.setting.grid.place(self.rank)

    @property
    def row_heads(self) -> slice:
        """Its query heads among all."""
        first = self.place.head_group * self.setting.rows_heads
        return slice(first, first + self.setting.rows_heads)

    @property
    def key_heads(self) -> slice:
        """Its KV heads among all."""
        first = self.place.head_group * self.setting.keys_heads
        return slice(first, first + self.setting.keys_heads)

    def room(
        self, name: str, shape: tuple[int, int, int], *, sums: bool = False, stack: ExitStack | None = None
    ) -> Values:
        """Take room for (heads, tokens, width) values of every sequence until the stack closes."""
        heads, tokens, width = shape
        batch = self.setting.workload.batch
        make = self.memory.scratch if sums else self.memory.buffer
        buffer = (stack or self.stack).enter_context(make(name, batch * heads * tokens, width))
        tile = buffer.over(slice(0, batch * heads * tokens), slice(0, width))
        array: Values = tile.values.reshape(batch, heads, tokens, width)
        self.arrays[name] = array
        return array
