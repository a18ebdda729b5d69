"""Messages of a grid one by one, as a second witness of what the stages add up."""

from collections.abc import Iterator
from typing import NamedTuple, assert_never

from attenio.cluster.grid import Grid
from attenio.cluster.words import Shares, Stage, halo_keys, stage_widths
from attenio.masks import SlidingWindow
from attenio.workload import Workload


class Message(NamedTuple):
    """Words that one rank sends to another."""

    source: int
    target: int
    words: int


def stage_messages(workload: Workload, grid: Grid, stage: Stage, shares: Shares) -> Iterator[Message]:
    """Every message of a stage, by source and then by target; empty ones are left out."""
    widths = stage_widths(workload, stage)
    row = workload.batch * (workload.heads // grid.heads) * widths.row
    key = workload.batch * (workload.kv_heads // grid.heads) * widths.key
    mine = (row * shares.queries + key * shares.keys).reshape(-1)
    everyones = mine.reshape(-1, grid.heads).sum(axis=1)  # of a place, by rank // heads
    windowed = isinstance(workload.mask, SlidingWindow) and stage in (Stage.GATHER_KEYS, Stage.REDUCE_KEYS)
    halo = key * halo_keys(workload, grid, shares) if windowed else None
    for source in range(grid.devices):
        here = grid.place(source)
        for target in _peers(grid, source, stage):
            there = grid.place(target)
            match stage:
                case Stage.SCATTER_HEADS | Stage.SCATTER_GRADIENTS:
                    words = mine[source]
                case Stage.RETURN_HEADS:
                    words = mine[target]
                case Stage.GATHER_QUERIES:
                    words = everyones[source // grid.heads]
                case Stage.REDUCE_OUTPUTS | Stage.REDUCE_QUERIES:
                    words = everyones[target // grid.heads]
                case Stage.GATHER_KEYS:
                    words = everyones[source // grid.heads] if halo is None else halo[here.row, there.row]
                case Stage.REDUCE_KEYS:
                    words = everyones[target // grid.heads] if halo is None else halo[there.row, here.row]
                case _:
                    assert_never(stage)
            if words:
                yield Message(source, target, int(words))


def _peers(grid: Grid, rank: int, stage: Stage) -> tuple[int, ...]:
    """Whom a rank sends to in a stage."""
    match stage:
        case Stage.SCATTER_HEADS | Stage.SCATTER_GRADIENTS | Stage.RETURN_HEADS:
            peers = grid.head_peers(rank)
        case Stage.GATHER_QUERIES | Stage.REDUCE_OUTPUTS | Stage.REDUCE_QUERIES:
            peers = grid.row_peers(rank)
        case Stage.GATHER_KEYS | Stage.REDUCE_KEYS:
            peers = grid.column_peers(rank)
        case _:
            assert_never(stage)
    return tuple(peer for peer in peers if peer != rank)
