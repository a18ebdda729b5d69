"""Rows of queries that stay while keys pass: Q, dO, L and D, and dQ, which begins at zero."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from attenio.dataflows.backward.passing_rows import part
from attenio.dataflows.backward.problem import BackwardProblem
from attenio.dataflows.backward.steps import Sums, add_gradients, stream_delta
from attenio.dataflows.online_softmax import ONE
from attenio.memory import Buffer, FastMemory, Tile
from attenio.memory.indices import Indices


class HeldRows(NamedTuple):
    """Of some rows."""

    Q: Tile
    dO: Tile
    L: Tile
    D: Tile
    dQ: Tile


@contextmanager
def _buffers(problem: BackwardProblem, count: int, fast: FastMemory) -> Iterator[tuple[Buffer, ...]]:
    with (
        fast.buffer("Q", count, problem.depth) as Q,
        fast.buffer("dO", count, problem.width) as dO,
        fast.scratch("L", count, 1) as L,
        fast.scratch("D", count, 1) as D,
        fast.scratch("dQ", count, problem.depth) as dQ,
    ):
        yield Q, dO, L, D, dQ


@contextmanager
def room_for_rows(
    problem: BackwardProblem, count: int, fast: FastMemory
) -> Iterator[Callable[[Indices], AbstractContextManager[HeldRows]]]:
    """Room for so many rows; what it gives loads rows, and makes their D while O streams past."""
    with _buffers(problem, count, fast) as buffers, fast.buffer("O", 1, 1) as O_element:
        Q_buffer, dO_buffer, L_buffer, D_buffer, dQ_buffer = buffers

        @contextmanager
        def holding(rows: Indices) -> Iterator[HeldRows]:
            with (
                Q_buffer.holding(problem.Q, rows) as Q,
                dO_buffer.holding(problem.dO, rows) as dO,
                L_buffer.holding(problem.L, rows) as L,
            ):
                D, dQ = D_buffer.zeros(rows, ONE), dQ_buffer.zeros(rows, problem.K.columns)
                stream_delta(fast, problem, D, dO, O_element, L)
                yield HeldRows(Q, dO, L, D, dQ)

        yield holding


@contextmanager
def places_for_rows(problem: BackwardProblem, count: int, fast: FastMemory) -> Iterator[HeldRows]:
    """The same room, but for the word of O, as places of their own for rows that come and go one by one."""
    with _buffers(problem, count, fast) as buffers:
        columns = problem.Q.columns, problem.V.columns, ONE, ONE, problem.Q.columns
        yield HeldRows(*(buffer.over(slice(0, count), of) for buffer, of in zip(buffers, columns, strict=True)))


def take_in(
    problem: BackwardProblem, fast: FastMemory, rows: HeldRows, key: tuple[Tile, Tile], where: tuple[Indices, Indices]
) -> None:
    """The rows at some places, with these names, take in a key and its value."""
    at, named = where
    Q, dO, L, D, dQ = (part(tile, at, named) for tile in rows)
    add_gradients(fast, problem.arithmetic, (Q, dO, L, D), key, Sums(dQ=dQ))
    rows.dQ.values[at] = dQ.values
