"""The gradient, keys stationary: rows pass with their partial gradients, nothing overlaps [FA].

    for each tile j of keys:
        load K_j, V_j
        for each head of the group, each tile i of the queries that need a key of j:
            load Q_i, dO_i, L_i
            first visit: load O_i; D_i = dO_i . O_i; store D_i        later visits: load D_i, partial dQ_i
            P = exp(Q_i K_j^T - L_i);  dV_j += P^T dO_i;  dP = dO_i V_j^T;  dS = P (dP - D_i)
            dK_j += dS^T Q_i;  dQ_i += dS K_j
            store dQ_i
        store dK_j, dV_j

Five products in place of two, and no reduction along rows: the maxima and sums are in the saved log-sum-exp.
"""

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise

from attenio.accelerator.hardware import Hardware
from attenio.accelerator.program import Node, repeat
from attenio.accelerator.programs.query_tiles import Keys as Rows
from attenio.accelerator.programs.query_tiles import query_tiles, stream, tiles_of_run
from attenio.accelerator.programs.steps import Steps
from attenio.accelerator.step import Operation, Step, Work
from attenio.errors import InvalidInput
from attenio.masks.patterns import Band, Pattern


@dataclass(frozen=True, kw_only=True)
class KeyStationary:
    """Tiles of keys that stay, tiles of rows that pass, for a group of heads; dense, causal or window scores."""

    hardware: Hardware
    d: int
    value_dim: int
    group: int
    query_tile: int
    key_tile: int

    def head(self, pattern: Pattern) -> tuple[Node, ...]:
        """The heads of one group on one sequence."""
        across, nodes = _band(pattern).transposed, tuple[Node, ...]()
        keys = seen = 0  # keys that are done, and rows that were visited
        # seen from the keys: tiles of keys, and the rows that each needs
        for run in query_tiles(across, self.key_tile):
            # the ends of the rows move evenly within a run, so from its second tile on equally many are new
            for start, stop in pairwise(sorted({0, 1, run.count})):
                part = run.part(start, stop)
                new = int(across.end_key(keys + part.rows - 1)) - seen
                tile = partial(self._keys, part.rows, new)
                visited = replace(part, keys=part.keys - new)
                nodes += tiles_of_run(visited, (0, self.query_tile - 1), tile)
                keys += part.count * part.rows
                seen = int(across.end_key(keys - 1))
        return nodes

    def _keys(self, keys: int, new: int, visited: Rows) -> tuple[Node, ...]:
        """A tile of keys and the rows that need one of them: those that were visited before, then the new ones."""
        steps, width = Steps(hardware=self.hardware), self.d + self.value_dim

        def visits(rows: Rows, *, first: bool) -> tuple[Node, ...]:
            return stream(rows, self.query_tile, lambda height, _: self._visit(steps, height, keys, first=first))

        heads = (*visits(visited, first=False), *visits(Rows.fixed(new), first=True))
        load = steps.load("KV", keys * width, after=("store dKV",)).doing(Operation.LOAD_KEYS, rows=0, keys=keys)
        store = steps.store("dKV", keys * width, after=("query gradient",))
        return (load, *repeat(self.group, *heads), store.doing(Operation.STORE_KEY_GRADIENTS, rows=0, keys=keys))

    @lru_cache(maxsize=4096)  # noqa: B019 - values, and few of them
    def _visit(self, steps: Steps, rows: int, keys: int, *, first: bool) -> tuple[Node, ...]:
        d, dv, scores = self.d, self.value_dim, rows * keys
        own = rows * (d + dv + 1)
        words = own + (rows * dv if first else rows * (d + 1))
        load = steps.load("Q", words, after=("store dQ", "load KV"), jump=True)
        passing: tuple[Step, ...] = (load.doing(Operation.LOAD_QUERIES, rows=rows, keys=keys),)
        if first:
            dots = steps.map("dO.O", rows * dv, after=("load Q",))
            passing += (dots.doing(Operation.ROW_DOTS, rows=rows), steps.store("D", rows, after=("dO.O",)))
        size = rows, keys
        subtract = steps.map("subtract", scores, after=("scores",))
        exponentials = steps.exponentials(scores, after=("subtract",))
        score_gradient = steps.map("score gradient", scores, operations=2, after=("probability gradient",))
        return (
            *passing,
            _product(steps, Operation.SCORES, size, d, ("load Q", "load KV", "dO.O")),
            subtract.doing(Operation.MAXIMUM, rows=rows, keys=keys),
            exponentials.doing(Operation.EXPONENTIALS, rows=rows, keys=keys),
            _product(steps, Operation.VALUE_GRADIENT, size, dv, ("exponentials",)),
            _product(steps, Operation.PROBABILITY_GRADIENT, size, dv, ("value gradient",)),
            score_gradient.doing(Operation.SCORE_GRADIENT, rows=rows, keys=keys),
            _product(steps, Operation.KEY_GRADIENT, size, d, ("score gradient",)),
            _product(steps, Operation.QUERY_GRADIENT, size, d, ("key gradient",)),
            steps.store("dQ", rows * d, after=("query gradient", "store D")).doing(
                Operation.STORE_OUTPUTS, rows=rows, keys=keys
            ),
        )


def _product(steps: Steps, what: Operation, size: tuple[int, int], width: int, after: tuple[str, ...]) -> Step:
    """One of the five products. MACs keep keys and hear rows; only for dQ, a sum over keys, they keep rows."""
    pe, (rows, keys) = steps.hardware.pe, size
    macs = rows * keys * width
    resident, heard = (rows, keys) if what is Operation.QUERY_GRADIENT else (keys, rows)
    if what in (Operation.SCORES, Operation.PROBABILITY_GRADIENT):  # sums over the width
        cycles = heard * pe.broadcast_cycles(rows=resident, steps=width)
        cycles += pe.summing_cycles(rows=resident, steps=width)
    else:
        cycles = pe.update_cycles(rows=resident, keys=heard, steps=width) + pe.silicon.latency_cycles
    if what is Operation.VALUE_GRADIENT:  # the first that takes exponentials
        cycles += pe.silicon.exp_fill_cycles
    work = Work(macs=macs, cache_words=2 * macs, kv_words=heard * width)
    return steps.on_array(what.value, cycles, after, work).doing(what, rows=rows, keys=keys)


def _band(pattern: Pattern) -> Band:
    """The pattern as a band in which every row and every key is needed."""
    if pattern.is_dense:
        return Band.dense(pattern.rows, pattern.keys)
    if isinstance(pattern, Band) and pattern.touched_rows == pattern.rows and pattern.touched_keys == pattern.keys:
        return pattern
    raise InvalidInput(
        "the gradient is timed on dense, causal and window masks that need every row and every key; use one of these"
        " with at least as many keys as queries, or count its words with plan"
    )
