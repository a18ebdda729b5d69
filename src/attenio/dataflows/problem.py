"""A problem: what one pass of a dataflow's loop nest works on, and how its rows and keys are cut into tiles."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.dataflows.arithmetic import Arithmetic
from attenio.dataflows.inputs import Inputs, scales_of
from attenio.masks import SharedPrefix
from attenio.masks.patterns import Pattern
from attenio.memory import Buffer, FastMemory, Matrix, SlowArray, Tile
from attenio.memory.indices import Indices, compact, cuts, size
from attenio.memory.matrix import Values
from attenio.reference import segments
from attenio.workload import Workload

Advance = Callable[[int], None]
Hidden = NDArray[np.bool_] | None

# Booleans of a mask looked at together: a key tile may be a single key, and asking for each one by itself is slow.
_MASK_AT_ONCE = 2**20


class Stays(NamedTuple):
    """What a causal forward pass leaves in fast memory: the first keys, some of their values, and the last rows.

    Of rows queries and outputs.
    """

    keys: int = 0
    values: int = 0
    rows: int = 0


NOTHING_STAYS = Stays()


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Queries of ``group`` heads against the keys they share: row ``head * pattern.rows + position`` of Q and O.

    ``L`` and ``P`` are there if the log-sum-exp of rows, or their probabilities, are to outlast the run. With
    ``values_in_keys`` a row of V is the beginning of that row of K: whoever holds it need not load it.

    It has the query heads from ``first_head`` on; ``per_word`` entries of K and V share a word. ``sinks`` are those of
    the rows, where they have any. What ``stays`` is in fast memory after the forward pass and before the backward one.
    """

    label: str
    pattern: Pattern
    group: int
    Q: SlowArray
    K: SlowArray
    V: SlowArray
    O: SlowArray  # noqa: E741 - the paper's letter
    arithmetic: Arithmetic
    intermediate_words: int
    advance: Advance = field(default=lambda units: None)
    L: SlowArray | None = None
    P: SlowArray | None = None
    values_in_keys: bool = False
    first_head: int = 0
    per_word: int = 1
    sinks: Values | None = None
    stays: Stays = NOTHING_STAYS

    def key_buffer(self, fast: FastMemory, name: str, rows: int, columns: int) -> Buffer:
        """Room for keys or values, as many entries a word as they take."""
        return fast.packed(name, rows, columns, self.per_word)

    def sinks_of(self, rows: Indices) -> Values | None:
        """The sinks of some rows, or None where there are none."""
        return None if self.sinks is None else self.sinks[rows]

    @property
    def depth(self) -> int:
        """Width of queries and keys."""
        return size(self.K.columns)

    @property
    def width(self) -> int:
        """Width of values and outputs."""
        return size(self.V.columns)

    def spilled(self, name: str, rows: int, columns: int) -> SlowArray:
        """Room in slow memory for intermediates."""
        return SlowArray.intermediate(name, (rows, columns), self.intermediate_words)

    def query_tiles(self, tile: int) -> Iterator[slice]:
        """Positions cut into tiles, the last one ragged."""
        for positions in cuts(self.pattern.rows, tile):
            yield positions
            self.advance(size(positions))

    def head_tiles(self, tile: int) -> Iterator[range]:
        """Heads of the group cut into tiles, the last one ragged."""
        for start in range(0, self.group, tile):
            yield range(start, min(start + tile, self.group))

    def rows_of(self, heads: range, positions: slice) -> Indices:
        """Rows of Q and O that belong to these heads at these positions, head after head."""
        if len(heads) == 1:
            top = heads[0] * self.pattern.rows
            return slice(top + positions.start, top + positions.stop)
        places = np.arange(positions.start, positions.stop, dtype=np.intp)
        return np.concatenate([head * self.pattern.rows + places for head in heads])


def key_runs(
    pattern: Pattern, positions: slice, key_tile: int, needed: NDArray[np.intp] | None = None
) -> Iterator[tuple[Indices, Hidden]]:
    """The keys that the positions need (or those given) in runs of ``key_tile``, with the scores that are not required.

    The second value is None where every score of the run is required.
    """
    if needed is None:
        needed = pattern.needed_keys(positions.start, positions.stop)
    runs = max(1, _MASK_AT_ONCE // ((positions.stop - positions.start) * key_tile))
    for first in range(0, len(needed), runs * key_tile):
        keys = needed[first : first + runs * key_tile]
        hidden = ~pattern.required(positions.start, positions.stop, keys)
        partly = np.asarray(hidden.any(axis=0))
        for start in range(0, len(keys), key_tile):
            run = slice(start, start + key_tile)
            yield compact(keys[run]), hidden[:, run] if partly[run].any() else None


@contextmanager
def values_beside(buffer: Buffer | None, V: Matrix, K_j: Tile, places: Indices) -> Iterator[Tile]:
    """The values of the keys that K_j holds: loaded into the buffer, or without one the beginning of those keys."""
    if buffer is None:
        yield K_j.first_columns(size(V.columns))
        return
    with buffer.holding(V, places) as V_j:
        yield V_j


def visible(hidden: Hidden) -> Hidden:
    """The scores that are required, given those that are not; None where all are."""
    return None if hidden is None else ~hidden


def for_heads(hidden: Hidden, heads: range) -> Hidden:
    """The same scores hidden in every one of the heads, stacked."""
    return hidden if hidden is None or len(heads) == 1 else np.tile(hidden, (len(heads), 1))


class ExtraOutputs(NamedTuple):
    """What a forward pass stores beside its output, for the backward one.

    The log-sum-exp of rows is (batch, heads, queries, 1); probabilities are (rows, keys) by batch, head and segment.
    What ``stays`` is not stored but left in fast memory.
    """

    log_sum_exp: NDArray[np.float32] | None = None
    probabilities: dict[tuple[int, int, int], NDArray[np.float32]] | None = None
    stays: Stays = NOTHING_STAYS


NO_EXTRA = ExtraOutputs()


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """What problems are cut from: a workload, its inputs, and the output (and extra outputs) that they fill."""

    workload: Workload
    inputs: Inputs
    output: NDArray[np.float32]
    arithmetic: Arithmetic
    advance: Advance
    extra: ExtraOutputs = NO_EXTRA
    sinks: NDArray[np.float32] | None = None

    def problem(self, label: str, pattern: Pattern, arrays: Inputs, first_head: int) -> Problem:
        """A problem over (heads, positions, width) queries and (keys, width) keys and values."""
        group, rows, depth = arrays.q.shape
        dtype, words = self.workload.dtype, self.workload.accumulator_words
        keeps_L, keeps_P = self.extra.log_sum_exp is not None, self.extra.probabilities is not None
        return Problem(
            label=label,
            pattern=pattern,
            group=group,
            Q=SlowArray.elements("Q", arrays.q.reshape(group * rows, depth), dtype),
            K=self._stored("K", arrays.k, first_head),
            V=self._stored("V", arrays.v, first_head),
            O=SlowArray.unwritten("O", (group * rows, self.workload.value_dim), dtype),
            arithmetic=self.arithmetic,
            intermediate_words=words,
            advance=self.advance,
            L=SlowArray.intermediate("L", (group * rows, 1), words) if keeps_L else None,
            P=SlowArray.intermediate("P", (group * rows, pattern.keys), words) if keeps_P else None,
            values_in_keys=self.workload.values_in_keys,
            first_head=first_head,
            per_word=self.workload.entries_per_word,
            stays=self.extra.stays,
        )

    @cached_property
    def scales(self) -> NDArray[np.float32]:
        """The scales of keys and of values of each KV head, where they take fewer bits: (KV heads, 2)."""
        k, v = (scales_of(self.workload, array) for array in (self.inputs.k, self.inputs.v))
        return np.stack([k, k if self.workload.values_in_keys else v], axis=1)

    def _stored(self, name: str, values: NDArray[np.float32], first_head: int) -> SlowArray:
        """Keys or values as they lie in slow memory: whole numbers where they have a scale."""
        if not self.workload.has_scales:
            return SlowArray.elements(name, values, self.workload.dtype)
        scale = self.scales[first_head // self.workload.group, 0 if name == "K" else 1]
        return SlowArray.packed(name, np.rint(values / scale), self.workload.entries_per_word)


def separate_problems(shared: Sharing, *, by_group: bool) -> Iterator[Problem]:
    """Each sequence, segment of it and query head by itself; ``by_group``, the heads of a group together.

    A problem's output is copied out when the next problem is drawn.
    """
    workload, inputs = shared.workload, shared.inputs
    heads = workload.group if by_group else 1
    for batch, first in _in_turn(workload, heads):
        kv_head = first // workload.group
        for number, segment in enumerate(segments(workload)):
            arrays = Inputs(
                inputs.q[batch, first : first + heads, segment.rows],
                inputs.k[batch, kv_head, segment.keys],
                inputs.v[batch, kv_head, segment.keys],
            )
            problem = shared.problem(f"batch {batch} head {first} part {number}", segment.pattern, arrays, first)
            yield problem
            filled = batch, slice(first, first + heads), segment.rows
            shared.output[filled] = problem.O.values.reshape(heads, -1, workload.value_dim)
            if shared.extra.log_sum_exp is not None and problem.L is not None:
                shared.extra.log_sum_exp[filled] = problem.L.values.reshape(heads, -1, 1)
            if shared.extra.probabilities is not None and problem.P is not None:
                each = problem.P.values.reshape(heads, -1, segment.pattern.keys)
                shared.extra.probabilities.update({(batch, first + i, number): each[i] for i in range(heads)})


def _in_turn(workload: Workload, heads: int) -> Iterator[tuple[int, int]]:
    """Sequences and first heads, one sequence after the other; one KV head after the other where something is held."""
    pairs = product(range(workload.batch), range(0, workload.heads, heads))
    yield from sorted(pairs, key=lambda pair: pair[1] // workload.group) if workload.held_words else pairs


def stacked_problems(shared: Sharing) -> Iterator[Problem]:
    """The heads of a group together and, with a shared prefix, the requests of the batch one under the other."""
    workload, inputs = shared.workload, shared.inputs
    if not isinstance(workload.mask, SharedPrefix):
        yield from separate_problems(shared, by_group=True)
        return
    ((pattern, _),) = workload.stacked_patterns
    prefix, group = workload.mask.length, workload.group
    for kv_head in range(workload.kv_heads):
        heads = slice(kv_head * group, (kv_head + 1) * group)
        queries = np.moveaxis(inputs.q[:, heads], 0, 1)  # head, request, position
        stacked = [
            np.concatenate([x[0, kv_head, :prefix], x[:, kv_head, prefix:].reshape(-1, x.shape[-1])])
            for x in (inputs.k, inputs.v)
        ]
        rows = Inputs(queries.reshape(group, -1, workload.d), *stacked)
        problem = shared.problem(f"KV head {kv_head}", pattern, rows, heads.start)
        yield problem
        shape = (group, workload.batch, workload.queries, -1)
        shared.output[:, heads] = np.moveaxis(problem.O.values.reshape(shape), 1, 0)
        if shared.extra.log_sum_exp is not None and problem.L is not None:
            shared.extra.log_sum_exp[:, heads] = np.moveaxis(problem.L.values.reshape(shape), 1, 0)
