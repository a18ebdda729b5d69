"""Ranks as threads of one process: messages are handed over in memory, without a copy, and ranks take turns.

For tests, and for many virtual devices on one GPU. A rank keeps its turn until it waits for a message that is not
there yet; so kernels are launched by one thread at a time, and a run of the same ranks repeats.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from torch import Tensor

from attenio.errors import AttenioError

Result = TypeVar("Result")


class RankFailed(AttenioError):
    """A rank ended while others waited for it."""


@dataclass(kw_only=True)
class World:
    """What the ranks of one process share: mailboxes, whose turn it is, and who failed."""

    size: int
    boxes: dict[tuple[int, int], deque[Tensor]] = field(default_factory=dict)
    turn: threading.Condition = field(default_factory=threading.Condition)
    failed: int | None = None

    def transport(self, rank: int) -> "InMemory":
        """The end of one rank."""
        return InMemory(rank=rank, world=self)


@dataclass(frozen=True, kw_only=True)
class InMemory:
    """One rank's end."""

    rank: int
    world: World

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self.world.size

    def agree(self, form: str) -> None:
        """Threads of one process are given the same call by whoever runs them."""

    def post(self, sends: Sequence[tuple[int, Tensor]], receives: Sequence[tuple[int, int]], like: Tensor) -> "_Posted":
        """Hand messages over; whoever waits for one is woken."""
        for rank, message in sends:
            self.world.boxes.setdefault((self.rank, rank), deque()).append(message)
        self.world.turn.notify_all()
        return _Posted(self, list(receives))


@dataclass(frozen=True)
class _Posted:
    end: InMemory
    receives: list[tuple[int, int]]

    def wait(self) -> list[Tensor]:
        """The messages, in order; the turn is given away while one is missing."""
        return [self._one(rank, length) for rank, length in self.receives]

    def _one(self, rank: int, length: int) -> Tensor:
        world = self.end.world
        box = world.boxes.setdefault((rank, self.end.rank), deque())
        while not box:
            if world.failed is not None:
                raise RankFailed(f"rank {world.failed} failed; rank {self.end.rank} waited for rank {rank}")
            world.turn.wait()
        message = box.popleft()
        if message.numel() != length:
            raise RankFailed(
                f"rank {rank} sent {message.numel():,} bytes and rank {self.end.rank} expects {length:,};"
                " give all ranks the same shapes"
            )
        return message


def run_ranks(size: int, work: Callable[[InMemory], Result]) -> list[Result]:
    """Run ``work`` as every rank of a world of threads; the first failure is raised."""
    world = World(size=size)
    found: dict[int, Result] = {}
    failures: list[BaseException] = []

    def run(rank: int) -> None:
        with world.turn:
            try:
                found[rank] = work(world.transport(rank))
            except BaseException as failure:
                failures.append(failure)
                world.failed = rank if world.failed is None else world.failed
                world.turn.notify_all()

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [found[rank] for rank in range(size)]
