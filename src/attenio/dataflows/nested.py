"""Three or more levels of memory: the tiles of each level are the slow side of the level below.

    a rectangle of positions and keys whose Q, K, V and state lie in the level above, at level k:
        for each tile i of query_tile[k] positions, the head_tile rows of each:
            load Q_i;  load (O_i, max, sum), or 0, -inf, 0 in the first rectangle of these rows
            for each run j of key_tile[k] of the rectangle's keys that the tile needs:
                load K_j and V_j (not if it is part of K_j)
                innermost:  S = scale Q_i K_j^T;  P, max, sum, rescale = online softmax of S;  O_i = rescale O_i + P V_j
                elsewhere:  this loop nest for the rectangle (i, j) at level k - 1
            store (O_i, max, sum), or O_i / sum after the last rectangle of these rows

The outermost level starts with all positions and all keys; a tile of it that needs no key loads nothing and writes
zeros. Further in, every tile of a rectangle is visited even if it needs none of its keys, so that the first and the
last visit are the same for all of them. One level alone is FlashAttention-2's order over stacked heads.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.online_softmax import OnlineSoftmax, make_scores
from attenio.dataflows.problem import Problem, for_heads, values_beside
from attenio.memory import Buffer, FastMemory, Matrix, Tile, Trace
from attenio.memory.indices import compact, compose, cuts, size
from attenio.planning.nested import NestedPlan

Numbers = NDArray[np.intp]


def nested_memories(plan: NestedPlan, *, record: bool = False) -> tuple[FastMemory, ...]:
    """The fast memories of a nested plan, innermost first, with traces that share one list of events."""
    innermost = Trace(record=record)
    traces = [innermost] + [
        Trace(record=record, level=level, events=innermost.events) for level in range(2, len(plan.fast_words) + 1)
    ]
    words = plan.workload.accumulator_words
    return tuple(
        FastMemory(capacity, intermediate_words=words, trace=trace)
        for capacity, trace in zip(plan.fast_words, traces, strict=True)
    )


@dataclass(frozen=True, kw_only=True)
class _Level:
    """One level's reserved buffers and tile sizes."""

    fast: FastMemory
    query_tile: int
    key_tile: int
    Q: Buffer
    K: Buffer
    V: Buffer | None  # None where values are part of keys
    O: Buffer  # noqa: E741 - the paper's letter
    S: Buffer | None  # only the innermost level computes
    softmax: OnlineSoftmax


@dataclass(frozen=True, kw_only=True)
class _Rectangle:
    """Positions and keys to work on, and where the level above holds what belongs to them.

    Row ``head * stride + position - origin`` of the matrices above belongs to a head and a position.
    """

    positions: slice
    keys: Numbers
    heads: range
    stride: int
    origin: int
    Q: Matrix
    K: Matrix
    V: Matrix
    O: Matrix  # noqa: E741 - the paper's letter
    state: tuple[Matrix, Matrix] | None  # maximum and sum; slow memory never needs them
    first: bool = True
    last: bool = True

    def rows_of(self, positions: slice) -> Numbers:
        places = np.arange(positions.start, positions.stop, dtype=np.intp) - self.origin
        return np.concatenate([head * self.stride + places for head in self.heads])

    def within(self, positions: slice) -> "_Rectangle":
        """The same heads at some of the positions, where a level holds just those: head after head from row 0."""
        return replace(
            self, positions=positions, heads=range(len(self.heads)), stride=size(positions), origin=positions.start
        )

    def tiles(self, query_tile: int) -> Iterator[slice]:
        return (
            slice(self.positions.start + tile.start, self.positions.start + tile.stop)
            for tile in cuts(size(self.positions), query_tile)
        )


def attend_nested(problem: Problem, plan: NestedPlan, memories: tuple[FastMemory, ...]) -> None:
    """Run the query heads of one KV head."""
    with ExitStack() as residency:
        levels = _reserved(problem, plan, memories, residency)
        for heads in problem.head_tiles(min(plan.head_tile, problem.group)):
            everything = _Rectangle(
                positions=slice(0, problem.pattern.rows),
                keys=np.arange(problem.pattern.keys, dtype=np.intp),
                heads=heads,
                stride=problem.pattern.rows,
                origin=0,
                Q=problem.Q,
                K=problem.K,
                V=problem.V,
                O=problem.O,
                state=None,
            )
            _attend(problem, levels, everything)


def _reserved(
    problem: Problem, plan: NestedPlan, memories: tuple[FastMemory, ...], residency: ExitStack
) -> tuple[_Level, ...]:
    """Reserve the buffers of every level, innermost first in the result; a tile is never larger than the one above."""
    heads, a, b = min(plan.head_tile, problem.group), problem.pattern.rows, problem.pattern.keys
    levels = []
    for number in reversed(range(len(memories))):
        fast, tiles = memories[number], plan.tiles[number]
        a, b = min(a, tiles.query_tile), min(b, tiles.key_tile)
        reserve, rows = residency.enter_context, heads * a
        levels.append(
            _Level(
                fast=fast,
                query_tile=a,
                key_tile=b,
                Q=reserve(fast.buffer("Q", rows, problem.depth)),
                K=reserve(problem.key_buffer(fast, "K", b, problem.depth)),
                V=None if problem.values_in_keys else reserve(problem.key_buffer(fast, "V", b, problem.width)),
                O=reserve(fast.scratch("O", rows, problem.width)),
                S=reserve(fast.scratch("S", rows, b)) if number == 0 else None,
                softmax=reserve(OnlineSoftmax(fast, problem.arithmetic, rows)),
            )
        )
    return tuple(reversed(levels))


def _attend(problem: Problem, levels: tuple[_Level, ...], area: _Rectangle) -> None:
    """Work on one rectangle with the outermost of the levels, and with the others inside it."""
    *inner, level = levels
    for positions in area.tiles(level.query_tile):
        rows = area.rows_of(positions)
        needed = _needed(problem, area, positions)
        if area.state is None and len(needed) == 0:
            _write_zeros(problem, levels, area, positions)
        else:
            with level.Q.holding(area.Q, rows) as Q_i:
                level.softmax.begin(Q_i.rows, problem.sinks_of(Q_i.rows))
                O_i = level.O.zeros(Q_i.rows, problem.V.columns)
                if not area.first:
                    _load_state(level, area, O_i, rows)
                # without a key there is still one visit inside: only the innermost level computes, even a division
                runs = list(cuts(len(needed), level.key_tile)) or [slice(0, 0)]
                for run in runs:
                    places = compact(needed[run])
                    with level.K.holding(area.K, places) as K_j, values_beside(level.V, area.V, K_j, places) as V_j:
                        keys = area.keys[needed[run]]
                        if inner:
                            held = replace(area.within(positions), keys=keys, Q=Q_i, K=K_j, V=V_j, O=O_i)
                            tile = replace(
                                held,
                                state=(level.softmax.max, level.softmax.sum),
                                first=area.first and run is runs[0],
                                last=area.last and run is runs[-1],
                            )
                            _attend(problem, tuple(inner), tile)
                        elif len(keys):
                            hidden = ~problem.pattern.required(positions.start, positions.stop, keys)
                            _compute(problem, level, (Q_i, K_j, V_j, O_i), for_heads(hidden, area.heads))
                if area.last and not inner:
                    level.softmax.normalise(O_i)
                _store(problem, level, area, O_i, rows)
        if area.state is None:
            problem.advance(size(positions))


def _needed(problem: Problem, area: _Rectangle, positions: slice) -> Numbers:
    """Places, among the rectangle's keys, of those that the positions need."""
    pattern = problem.pattern
    if area.state is None:
        return pattern.needed_keys(positions.start, positions.stop)
    return np.flatnonzero(pattern.required(positions.start, positions.stop, area.keys).any(axis=0))


def _compute(
    problem: Problem, level: _Level, tiles: tuple[Tile, Tile, Tile, Tile], hidden: NDArray[np.bool_] | None
) -> None:
    Q_i, K_j, V_j, O_i = tiles
    assert level.S is not None
    S = level.S.zeros(Q_i.rows, K_j.rows)
    make_scores(level.fast, problem.arithmetic, S, Q_i, K_j)
    P = level.softmax.absorb(S, hidden)
    level.softmax.accumulate(O_i, P, V_j)


def _load_state(level: _Level, area: _Rectangle, O_i: Tile, rows: Numbers) -> None:
    assert area.state is not None
    held = O_i, level.softmax.max, level.softmax.sum
    for above, tile in zip((area.O, *area.state), held, strict=True):
        level.fast.load(above, tile, rows)


def _store(problem: Problem, level: _Level, area: _Rectangle, O_i: Tile, rows: Numbers) -> None:
    """Store the finished output as elements, or the state that the next rectangle of these rows goes on from."""
    if area.last:
        level.fast.store(O_i, area.O, rows, element=problem.O.element)
        return
    assert area.state is not None
    held = O_i, level.softmax.max, level.softmax.sum
    for above, tile in zip((area.O, *area.state), held, strict=True):
        level.fast.store(tile, above, rows)


def _write_zeros(problem: Problem, levels: tuple[_Level, ...], area: _Rectangle, positions: slice) -> None:
    """Zeros for rows that need no key come from the innermost level, through all of them."""
    *inner, level = levels
    rows = area.rows_of(positions)
    O_i = level.O.zeros(compose(area.O.rows, rows), problem.V.columns)
    if inner:
        inside = replace(area.within(positions), O=O_i)
        for tile in inside.tiles(inner[-1].query_tile):
            _write_zeros(problem, tuple(inner), inside, tile)
    level.fast.store(O_i, area.O, rows, element=problem.O.element)
