"""Keys that stay while rows pass: K and V, and dK and dV, which begin at zero."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import numpy as np

from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients
from attenio.dataflows.key_slots import Visit
from attenio.dataflows.rolling import Turn
from attenio.memory import Buffer, FastMemory, Tile
from attenio.memory.indices import Indices


class HeldKeys(NamedTuple):
    """Of some keys; no dV where these are made afterwards."""

    K: Tile
    V: Tile
    dK: Tile
    dV: Tile | None

    @property
    def gradients(self) -> tuple[Tile, ...]:
        """Those that are made here."""
        return (self.dK,) if self.dV is None else (self.dK, self.dV)


@contextmanager
def _buffers(
    problem: BackwardProblem, count: int, fast: FastMemory, *, values_apart: bool = False
) -> Iterator[tuple[Buffer, Buffer, Buffer, Buffer | None]]:
    with (
        fast.buffer("K", count, problem.depth) as K,
        fast.buffer("V", count, problem.width) as V,
        fast.scratch("dK", count, problem.depth) as dK,
        nullcontext() if values_apart else fast.scratch("dV", count, problem.width) as dV,
    ):
        yield K, V, dK, dV


@contextmanager
def room_for_keys(
    problem: BackwardProblem, count: int, fast: FastMemory, *, values_apart: bool = False
) -> Iterator[Callable[[Indices], AbstractContextManager[HeldKeys]]]:
    """Room for so many keys; what it gives loads keys, and stores their gradients at the end."""
    with _buffers(problem, count, fast, values_apart=values_apart) as (K_buffer, V_buffer, dK_buffer, dV_buffer):

        @contextmanager
        def holding(keys: Indices) -> Iterator[HeldKeys]:
            dK = dK_buffer.zeros(keys, problem.K.columns)
            dV = None if dV_buffer is None else dV_buffer.zeros(keys, problem.V.columns)
            with K_buffer.holding(problem.K, keys) as K, V_buffer.holding(problem.V, keys) as V:
                yield HeldKeys(K, V, dK, dV)
            fast.store(dK, problem.dK)
            if dV is not None:
                fast.store(dV, problem.dV)

        yield holding


@contextmanager
def places_for_keys(problem: BackwardProblem, count: int, fast: FastMemory) -> Iterator[HeldKeys]:
    """The same room as places of their own for keys that come and go one by one."""
    with _buffers(problem, count, fast) as buffers:
        columns = (problem.K.columns, problem.V.columns) * 2
        yield HeldKeys(*(each.over(slice(0, count), of) for each, of in zip(buffers, columns, strict=True) if each))


@contextmanager
def slots_for_keys(problem: BackwardProblem, count: int, fast: FastMemory) -> Iterator[tuple[Tile, Tile]]:
    """Slots for so many keys and their values, of which nothing is written back."""
    with fast.buffer("K", count, problem.depth) as K, fast.buffer("V", count, problem.width) as V:
        yield K.over(slice(0, count), problem.K.columns), V.over(slice(0, count), problem.V.columns)


def in_slot(
    problem: BackwardProblem, fast: FastMemory, keys: tuple[Tile, Tile], visit: Visit | Turn
) -> tuple[Tile, Tile]:
    """The key of a visit and its value, loaded into their slot if they are not there."""
    key, slot = slice(visit.key, visit.key + 1), slice(visit.slot, visit.slot + 1)
    if visit.arrives:
        for source, tile in zip((problem.K, problem.V), keys, strict=True):
            fast.load(source, tile, key, at=np.array([visit.slot]))
    return part(keys[0], slot, key), part(keys[1], slot, key)


def meet(
    problem: BackwardProblem,
    fast: FastMemory,
    rows: tuple[Tile, Tile, Tile, Tile],
    keys: HeldKeys,
    where: tuple[Indices, Indices],
    dQ: Tile | None = None,
) -> None:
    """Rows, their Q, dO, L and D, meet the keys at some places, with these names."""
    at, named = where
    K, V, *sums = (part(tile, at, named) for tile in (keys.K, keys.V, *keys.gradients))
    add_gradients(fast, problem.arithmetic, rows, (K, V), Sums(dQ, *sums))
    for whole, some in zip(keys.gradients, sums, strict=True):
        whole.values[at] = some.values
