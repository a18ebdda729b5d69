"""Which rows and keys a program is about, head after head in the order in which it takes them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attenio.masks import SharedPrefix
from attenio.masks.patterns import Band, Pattern
from attenio.planning import Dataflow, Plan
from attenio.planning.costs import problems_of
from attenio.planning.plan import takes_heads_as_rows
from attenio.reference.forward import segments
from attenio.workload import Workload

Floats = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class Head:
    """Rows of one head, or of several heads that are stacked, and the keys that they meet, as places in the inputs.

    ``row_heads`` has a line of rows for each that is stacked; heads of a group may also be rows of one line.
    """

    row_heads: Indices
    kv_head: int
    row_batches: Indices
    row_positions: Indices
    key_batches: Indices
    key_positions: Indices
    pattern: Pattern

    def queries(self, q: Floats) -> NDArray[np.float64]:
        """Their rows of queries, outputs or gradients: heads, rows, width."""
        return q[self.row_batches, self.row_heads, self.row_positions].astype(np.float64)

    def keys(self, k: Floats) -> NDArray[np.float64]:
        """Their keys or values: keys, width."""
        return np.asarray(k[self.key_batches, self.kv_head, self.key_positions], dtype=np.float64)

    def store(self, output: Floats, rows: slice, values: NDArray[np.float64]) -> None:
        """Put some rows of all heads (heads, rows, width) where they belong."""
        output[self.row_batches[rows], self.row_heads[:, rows], self.row_positions[rows]] = values


def heads_of(plan: Plan) -> Iterator[Head]:
    """Every head of the plan's program."""
    workload, as_rows = plan.workload, takes_heads_as_rows(plan.workload, plan.dataflow)
    most = {
        Dataflow.STACKED_GROUPS: plan.tiles.get("head_tile", 1),
        Dataflow.KEY_STATIONARY: workload.group,
    }.get(plan.dataflow, 1)
    whole = workload.group // most
    # all stacks of full height come before the lower ones, whichever KV head they belong to
    stacks = [range(number * most, (number + 1) * most) for number in range(whole)]
    rest = range(whole * most, workload.group)
    for group in (stacks, [rest] if rest else []):
        for places in _sequences(plan):
            for kv_head in range(workload.kv_heads):
                for stack in group:
                    heads = kv_head * workload.group + np.array(stack, dtype=np.int64)
                    for pattern, rows, keys in places:
                        batches, positions = (np.tile(each, len(heads)) if as_rows else each for each in rows)
                        yield Head(
                            row_heads=np.repeat(heads, len(rows[0])).reshape(1 if as_rows else len(heads), -1),
                            kv_head=kv_head,
                            row_batches=batches,
                            row_positions=positions,
                            key_batches=keys[0],
                            key_positions=keys[1],
                            pattern=pattern,
                        )


_Places = tuple[Pattern, tuple[Indices, Indices], tuple[Indices, Indices]]


def _sequences(plan: Plan) -> Iterator[list[_Places]]:
    """Sequence by sequence the patterns of its segments, in the program's order, and where their rows and keys lie."""
    workload = plan.workload
    if plan.dataflow is Dataflow.STACKED_GROUPS and isinstance(workload.mask, SharedPrefix):
        yield [_stacked_requests(workload, workload.mask.length)]
        return
    for batch in range(workload.batch):

        def places(positions: slice, batch: int = batch) -> tuple[Indices, Indices]:
            every = np.arange(positions.start, positions.stop, dtype=np.int64)
            return np.full_like(every, batch), every

        yield [
            (pattern, places(segment.rows), places(segment.keys))
            for pattern, _ in problems_of(workload, plan.dataflow).counts.patterns
            for segment in segments(workload)
            if _stacked_pattern(plan, segment.pattern) == pattern
        ]


def _stacked_pattern(plan: Plan, pattern: Pattern) -> Pattern:
    """The pattern of a head's rows as the program has it, where heads of a group may be rows of one."""
    if not takes_heads_as_rows(plan.workload, plan.dataflow):
        return pattern
    return Band.dense(plan.workload.group * pattern.rows, pattern.keys)


def _stacked_requests(workload: Workload, prefix: int) -> _Places:
    """All requests, one under the other: the prefix once, as the first has it, then everyone's own keys."""
    ((pattern, _),) = workload.stacked_patterns
    requests, own = np.arange(workload.batch, dtype=np.int64), np.arange(prefix, workload.keys, dtype=np.int64)
    shared = np.arange(prefix, dtype=np.int64)
    rows = np.repeat(requests, workload.queries), np.tile(np.arange(workload.queries, dtype=np.int64), workload.batch)
    batches = np.concatenate([np.zeros_like(shared), np.repeat(requests, len(own))])
    return pattern, rows, (batches, np.concatenate([shared, np.tile(own, workload.batch)]))
