"""Rows of queries that stay while keys pass: Q, dO, L and D, and dQ, which begins at zero."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients, stream_delta
from attenio.dataflows.online_softmax import ONE
from attenio.memory import Buffer, FastMemory, SlowArray, Tile
from attenio.memory.indices import Indices

RowBuffers = tuple[Buffer, Buffer, Buffer, Buffer]


class HeldRows(NamedTuple):
    """Of some rows."""

    Q: Tile
    dO: Tile
    L: Tile
    D: Tile
    dQ: Tile


@contextmanager
def row_buffers(problem: BackwardProblem, count: int, fast: FastMemory) -> Iterator[RowBuffers]:
    """Room for Q, dO, L and D of so many rows."""
    with (
        fast.buffer("Q", count, problem.depth) as Q,
        fast.buffer("dO", count, problem.width) as dO,
        fast.scratch("L", count, 1) as L,
        fast.scratch("D", count, 1) as D,
    ):
        yield Q, dO, L, D


@contextmanager
def loaded_rows(
    problem: BackwardProblem,
    room: RowBuffers,
    rows: Indices,
    delta: SlowArray | None = None,
    *,
    sums: bool = True,
    queries: Tile | None = None,
) -> Iterator[tuple[Tile, Tile, Tile, Tile]]:
    """Rows in such room, their D that of ``delta``, or zero; without ``sums`` L is zero too.

    Their ``queries`` may be in fast memory already.
    """
    Q_buffer, dO_buffer, L_buffer, D_buffer = room
    with (
        Q_buffer.holding(problem.Q, rows) if queries is None else nullcontext(_copied(Q_buffer, queries)) as Q,
        dO_buffer.holding(problem.dO, rows) as dO,
        L_buffer.holding(problem.L, rows) if sums else nullcontext(L_buffer.zeros(rows, ONE)) as L,
        nullcontext(D_buffer.zeros(rows, ONE)) if delta is None else D_buffer.holding(delta, rows) as D,
    ):
        yield Q, dO, L, D


def _copied(buffer: Buffer, tile: Tile) -> Tile:
    """A tile in a buffer, from elsewhere in fast memory."""
    copy = buffer.zeros(tile.rows, tile.columns)
    copy.values[:] = tile.values
    return copy


@contextmanager
def room_for_rows(
    problem: BackwardProblem, count: int, fast: FastMemory
) -> Iterator[Callable[[Indices], AbstractContextManager[HeldRows]]]:
    """Room for so many rows; what it gives loads rows, and makes their D while O streams past."""
    with (
        row_buffers(problem, count, fast) as room,
        fast.scratch("dQ", count, problem.depth) as dQ_buffer,
        fast.buffer("O", 1, 1) as O_element,
    ):

        @contextmanager
        def holding(rows: Indices) -> Iterator[HeldRows]:
            with loaded_rows(problem, room, rows) as (Q, dO, L, D):
                stream_delta(fast, problem, D, dO, O_element, L)
                yield HeldRows(Q, dO, L, D, dQ_buffer.zeros(rows, problem.K.columns))

        yield holding


@contextmanager
def places_for_rows(problem: BackwardProblem, count: int, fast: FastMemory) -> Iterator[HeldRows]:
    """The same room, but for the word of O, as places of their own for rows that come and go one by one."""
    with row_buffers(problem, count, fast) as room, fast.scratch("dQ", count, problem.depth) as dQ:
        columns = problem.Q.columns, problem.V.columns, ONE, ONE, problem.Q.columns
        yield HeldRows(*(buffer.over(slice(0, count), of) for buffer, of in zip((*room, dQ), columns, strict=True)))


def take_in(
    problem: BackwardProblem, fast: FastMemory, rows: HeldRows, key: tuple[Tile, Tile], where: tuple[Indices, Indices]
) -> None:
    """The rows at some places, with these names, take in a key and its value."""
    at, named = where
    Q, dO, L, D, dQ = (part(tile, at, named) for tile in rows)
    add_gradients(fast, problem.arithmetic, (Q, dO, L, D), key, Sums(dQ=dQ))
    rows.dQ.values[at] = dQ.values
