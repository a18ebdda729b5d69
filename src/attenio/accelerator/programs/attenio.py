"""AttenIO's controller: three overlaps, and the softmax as a pipeline of maps [AttenIO, sections 4 and 5].

    for each tile i of queries:
        load Q_i                                   overlap 3: from when O_(i-1) is normalised, before it is stored
        for each tile j of keys:
            load K_j                               overlap 2: while O_i is updated with V_(j-1)
            S = Q_i K_j^T
            load V_j                               overlap 1: while S is computed
            maximum, subtract -> exponentials      three stages: P
            subtract -> exponentials -> multiply, add     four stages: the row sums
            O_i = rescaled O_i + P V_j
        normalise O_i; store O_i

A load may begin when the buffer element it goes to has been read: V_j from the moment the array begins with S, K_(j+1)
from the moment it begins with O_i. Rescaling O_i is part of the multiply-accumulate: the accumulator is scaled on its
way in.
"""

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise

from attenio.accelerator.hardware import Hardware
from attenio.accelerator.program import Node
from attenio.accelerator.programs.query_tiles import Keys, query_tiles, stream, tiles_of_run
from attenio.accelerator.programs.steps import Steps
from attenio.accelerator.step import Operation, Step, Work
from attenio.masks.patterns import Pattern


@dataclass(frozen=True, kw_only=True)
class Switches:
    """The three overlaps of communication with computation, and the parallel pattern of the softmax."""

    overlap_values: bool = True  # 1: values load while the scores of their keys are computed
    overlap_keys: bool = True  # 2: the next keys load while outputs are updated
    overlap_queries: bool = True  # 3: the next queries load while outputs are normalised
    parallel_softmax: bool = True  # pipelined maps over rows, in place of reductions along them

    @classmethod
    def none(cls) -> "Switches":
        """Everything off."""
        return cls(overlap_values=False, overlap_keys=False, overlap_queries=False, parallel_softmax=False)


_BEFORE_SCORES = ("load Q", "load K", "outputs", "normalise")
_BEFORE_OUTPUTS = ("load V", "row sums", "store O")


def attenio_head(
    hardware: Hardware, pattern: Pattern, query_tile: int, key_tile: int, shape: "QueryStationary"
) -> tuple[Node, ...]:
    """One head of one sequence, or the stacked heads of a group."""
    hardware.kv.check_tile(min(key_tile, pattern.keys), max(shape.d, shape.value_dim))
    runs = [replace(run, rows=run.rows * shape.heads) for run in query_tiles(pattern, query_tile)]
    nodes: tuple[Node, ...] = ()
    ahead = 0  # rows of queries that the tile before has loaded
    for run, after in zip(runs, (*runs[1:], None), strict=True):
        same = shape.ahead(run.rows, run.keys, run.keys)
        other = 0 if after is None else shape.ahead(after.rows, run.keys, after.keys)
        # the first and the last tile of a run differ from the others by who loads their queries, and what they load
        for start, stop in pairwise(sorted({0, 1, run.count - 1, run.count})):
            tile = partial(
                shape.tile,
                hardware,
                run.rows,
                key_tile,
                loaded=same if start else ahead,
                following=same if stop < run.count else other,
            )
            nodes += tiles_of_run(run.part(start, stop), (0, key_tile - 1), tile)
        ahead = other
    return nodes


@dataclass(frozen=True, kw_only=True)
class QueryStationary:
    """The nest of one tile of queries: widths of the heads, how many are stacked, and what is switched on."""

    d: int
    value_dim: int
    heads: int = 1
    switches: Switches

    def ahead(self, rows: int, keys: int, next_keys: int) -> int:
        """Rows of the next tile that load while this one is normalised: all or none, and none where no key is met."""
        return rows if self.switches.overlap_queries and keys and next_keys else 0

    def tile(
        self, hardware: Hardware, rows: int, key_tile: int, keys: Keys, *, loaded: int, following: int
    ) -> tuple[Node, ...]:
        """The steps of one tile of rows and the keys it needs; ``following`` rows of the next one load meanwhile."""
        steps = Steps(hardware=hardware)
        finish = self._finish(steps, rows)
        if keys.most == 0:
            return finish
        body = stream(keys, key_tile, partial(self._keys, steps, rows), jump=True)
        own = () if loaded else (self._queries(steps, rows, "store O"),)
        next_queries = (self._queries(steps, following, "outputs"),) if following else ()
        return (*own, *body, *next_queries, *finish)

    @lru_cache(maxsize=256)  # noqa: B019 - values, and few of them
    def _finish(self, steps: Steps, rows: int) -> tuple[Node, ...]:
        return steps.finished(rows, self.value_dim)

    @lru_cache(maxsize=256)  # noqa: B019 - values, and few of them
    def _queries(self, steps: Steps, rows: int, after: str) -> Step:
        return steps.load("Q", rows * self.d, after=(after,)).doing(Operation.LOAD_QUERIES, rows=rows)

    @lru_cache(maxsize=256)  # noqa: B019 - values, and few of them
    def _keys(self, steps: Steps, rows: int, keys: int, jump: bool) -> tuple[Node, ...]:
        """One round of the inner loop; the first of a tile begins at the first key, where no row is open."""
        switches = self.switches
        key_words, value_words = keys * self.d, keys * self.value_dim
        load_k = steps.load("K", key_words, after=_BEFORE_OUTPUTS if switches.overlap_keys else ("outputs",), jump=jump)
        load_v = steps.load(
            "V", value_words, after=_BEFORE_SCORES if switches.overlap_values else ("scores",), jump=jump
        )
        return (
            load_k.doing(Operation.LOAD_KEYS, rows=rows, keys=keys),
            steps.scores(rows, keys, self.d, after=_BEFORE_SCORES),
            load_v.doing(Operation.LOAD_VALUES, rows=rows, keys=keys),
            *(_pipeline if switches.parallel_softmax else _one_by_one)(steps, rows, keys),
            steps.outputs((rows, keys, self.value_dim), after=_BEFORE_OUTPUTS, rescaled=True),
        )


def _pipeline(steps: Steps, rows: int, keys: int) -> tuple[Node, ...]:
    """Two pipelines over groups of rows, the second close behind the first.

    Of several keys the largest must be known before the first exponential; their sum follows the exponentials, and only
    what the MACs of a row hold apart is joined at the end. Of three operations on a score (maximum, subtract, add) and
    two on a row (subtract the old maximum, multiply the old sum), the array does the maxima of further keys and those
    of the first group while the pipelines fill, and those of the last while they drain; all others are maps beside the
    EXP unit, and the phase lasts as long as the slower of the two.
    """
    pe, exp, scores = steps.hardware.pe, steps.hardware.exp, rows * keys
    group = min(rows, pe.macs, exp.modules)  # rows that pass through the pipelines together
    before, after = scores - rows + exp.filling_cycles * group, exp.draining_cycles * group
    between = 3 * scores + 2 * rows - before - after
    filling = exp.filling_cycles + pe.over_keys_cycles(rows=rows, keys=keys)
    joining = pe.joining_cycles(rows=rows, steps=keys) if keys > 1 else 0
    draining = exp.draining_cycles + pe.draining_cycles + pe.silicon.adder_cycles * joining
    maxima = steps.on_array("maxima", filling, ("scores",), Work(map_operations=before, cache_words=3 * scores))
    sums = steps.on_array(
        "row sums", draining, ("exponentials", "rescaling"), Work(map_operations=after, cache_words=3 * scores)
    )
    return (
        maxima.doing(Operation.MAXIMUM, rows=rows, keys=keys),
        steps.exponentials(scores, after=("maxima",)).doing(Operation.EXPONENTIALS, rows=rows, keys=keys),
        steps.exponentials(rows, after=("maxima",), name="rescaling").doing(Operation.RESCALING, rows=rows),
        steps.on_array("maps", pe.map_cycles(between), ("maxima",), Work(map_operations=between)),
        sums.doing(Operation.SUM, rows=rows, keys=keys),
    )


def _one_by_one(steps: Steps, rows: int, keys: int) -> tuple[Node, ...]:
    """The same stages one after the other, maximum and sum as reductions along rows."""
    scores = rows * keys  # the new maximum is subtracted from them, and from the old one of every row
    return (
        steps.reduction("maxima", scores, after=("scores",)),
        steps.map("subtract", scores + rows, after=("maxima",)).doing(Operation.MAXIMUM, rows=rows, keys=keys),
        steps.exponentials(scores, after=("subtract",)).doing(Operation.EXPONENTIALS, rows=rows, keys=keys),
        steps.exponentials(rows, after=("subtract",), name="rescaling").doing(Operation.RESCALING, rows=rows),
        steps.map("multiply", rows, after=("rescaling",)),
        steps.reduction("row sums", scores, after=("exponentials", "multiply"), adds=True).doing(
            Operation.SUM, rows=rows, keys=keys
        ),
    )
