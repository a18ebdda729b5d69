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

from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise

from attenio.accelerator.hardware import Hardware
from attenio.accelerator.program import Engine, Node, Step, Work, repeat
from attenio.accelerator.programs.query_tiles import Keys, query_tiles, stream, tiles_of_run
from attenio.accelerator.programs.steps import Steps
from attenio.errors import InvalidInput
from attenio.patterns import Band, Pattern

__all__ = ["KeyStationary"]


@dataclass(frozen=True, kw_only=True)
class KeyStationary:
    """Tiles of keys that stay, tiles of rows that pass, for a group of heads; dense or causal scores."""

    hardware: Hardware
    d: int
    value_dim: int
    group: int
    query_tile: int
    key_tile: int

    def head(self, pattern: Pattern) -> tuple[Node, ...]:
        """The heads of one group on one sequence."""
        found: tuple[Node, ...] = ()
        # seen from the keys: tiles of keys, and the rows that each needs
        for number, run in enumerate(query_tiles(_band(pattern).transposed, self.key_tile)):
            for start, stop in pairwise(sorted({0, 1 if number == 0 else 0, run.count})):
                tile = partial(self._keys, run.rows, number == 0 and start == 0)
                found += tiles_of_run(run.part(start, stop), (0, self.query_tile - 1), tile)
        return found

    def _keys(self, keys: int, first: bool, rows: Keys) -> tuple[Node, ...]:
        """A tile of keys and the rows that need one of them; the first tile meets every row for the first time."""
        steps, width = Steps(hardware=self.hardware), self.d + self.value_dim
        heads = stream(rows, self.query_tile, lambda height, _: self._visit(steps, height, keys, first=first))
        return (
            steps.load("KV", keys * width, after=("store dKV",)),
            *repeat(self.group, *heads),
            steps.store("dKV", keys * width, after=("query gradient",)),
        )

    @lru_cache(maxsize=4096)  # noqa: B019 - values, and few of them
    def _visit(self, steps: Steps, rows: int, keys: int, *, first: bool) -> tuple[Node, ...]:
        d, dv, scores = self.d, self.value_dim, rows * keys
        own = rows * (d + dv + 1)
        passing: tuple[Node, ...]
        if first:
            passing = (
                steps.load("Q", own + rows * dv, after=("store dQ", "load KV"), jump=True),
                steps.map("dO.O", rows * dv, after=("load Q",)),
                steps.store("D", rows, after=("dO.O",)),
            )
        else:
            passing = (steps.load("Q", own + rows * (d + 1), after=("store dQ", "load KV"), jump=True),)
        return (
            *passing,
            steps.scores(rows, keys, d, after=("load Q", "load KV", "dO.O")),
            steps.map("subtract", scores, after=("scores",)),
            steps.exponentials(scores, after=("subtract",)),
            self._product("value gradient", rows, (keys, dv), ("exponentials",)),
            self._product("probability gradient", rows, (keys, dv), ("value gradient",)),
            steps.map("score gradient", scores, operations=2, after=("probability gradient",)),
            self._product("key gradient", rows, (keys, d), ("score gradient",)),
            self._product("query gradient", rows, (keys, d), ("key gradient",)),
            steps.store("dQ", rows * d, after=("query gradient", "store D")),
        )

    def _product(self, name: str, rows: int, size: tuple[int, int], after: tuple[str, ...]) -> Step:
        """One of the five products: every row with so many elements of every key."""
        keys, width = size
        macs = rows * keys * width
        return Step(
            name=name,
            engine=Engine.PE,
            cycles=keys * self.hardware.pe.broadcast_cycles(rows=rows, steps=width),
            after=after,
            work=Work(macs=macs, cache_words=2 * macs, kv_words=keys * width),
            cause="PE array",
        )


def _band(pattern: Pattern) -> Band:
    """The pattern as a band in which every row needs the first key, so that all first visits are of one tile."""
    if pattern.is_dense:
        return Band.dense(pattern.rows, pattern.keys)
    if isinstance(pattern, Band) and pattern.first_key(pattern.rows - 1) == 0 and pattern.end_key(0) > 0:
        return pattern
    raise InvalidInput(
        "the gradient is timed where every row needs the first key; use --mask dense, or causal with at least as many"
        " keys as queries, or count its words with plan"
    )
