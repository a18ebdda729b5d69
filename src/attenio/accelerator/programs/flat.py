"""FLAT on the same hardware: complete rows of scores on chip, keys and then values streaming past [FLAT].

    for each tile i of queries:
        load Q_i
        K streams past, a granule of memory at a time:  S = Q_i K^T
        for each row: maximum along it; subtract, exponentials; sum along it; divide
        V streams past:  O_i = P V
        store O_i

When not one row fits, scores beyond the resident ones are stored after their granule and loaded back before it.
"""

from dataclasses import dataclass
from functools import lru_cache, partial

from attenio.accelerator.hardware import Hardware
from attenio.accelerator.program import Node, repeat
from attenio.accelerator.programs.query_tiles import Keys, of_size, query_tiles, stream, tiles_of_run
from attenio.accelerator.programs.steps import Steps
from attenio.accelerator.step import Operation
from attenio.masks.patterns import Pattern


@dataclass(frozen=True, kw_only=True)
class Flat:
    """FLAT with some rows at a time; ``resident_keys`` are those of a row whose scores stay, all if None."""

    hardware: Hardware
    d: int
    value_dim: int
    query_tile: int
    resident_keys: int | None = None

    def head(self, pattern: Pattern) -> tuple[Node, ...]:
        """One head of one sequence."""
        nodes: tuple[Node, ...] = ()
        resident = () if self.resident_keys is None else (self.resident_keys,)
        granules = {self._granule_keys(width) - 1 for width in (self.d, self.value_dim)}
        bounds = (0, *resident, *(start + keys for start in (0, *resident) for keys in granules))
        for run in query_tiles(pattern, self.query_tile):
            nodes += tiles_of_run(run, bounds, partial(self._tile, run.rows))
        return nodes

    def _tile(self, rows: int, keys: Keys) -> tuple[Node, ...]:
        steps = Steps(hardware=self.hardware)
        store = steps.store("O", rows * self.value_dim, after=("outputs",)).doing(Operation.STORE_OUTPUTS, rows=rows)
        if keys.most == 0:
            return (store,)
        resident, spilled = (keys, Keys.fixed(0)) if self.resident_keys is None else keys.split(self.resident_keys)
        return (
            steps.load("Q", rows * self.d, after=("store O",)).doing(Operation.LOAD_QUERIES, rows=rows),
            *self._scores(steps, rows, resident, jump=True),
            *self._scores(steps, rows, spilled, spilled=True, jump=resident.most == 0),
            *repeat(rows, *of_size(keys, partial(_row, steps))),
            *self._outputs(steps, rows, resident, jump=True),
            *self._outputs(steps, rows, spilled, spilled=True, jump=resident.most == 0),
            store,
        )

    def _granule_keys(self, width: int) -> int:
        """Keys of a granule of memory."""
        return max(1, self.hardware.hbm.granule_words // width)

    def _scores(self, steps: Steps, rows: int, keys: Keys, *, jump: bool, spilled: bool = False) -> tuple[Node, ...]:
        return stream(keys, self._granule_keys(self.d), partial(self._score_granule, steps, rows, spilled), jump=jump)

    def _outputs(self, steps: Steps, rows: int, keys: Keys, *, jump: bool, spilled: bool = False) -> tuple[Node, ...]:
        granule = partial(self._output_granule, steps, rows, spilled)
        return stream(keys, self._granule_keys(self.value_dim), granule, jump=jump)

    @lru_cache(maxsize=256)  # noqa: B019 - values, and few of them
    def _score_granule(self, steps: Steps, rows: int, spilled: bool, keys: int, jump: bool) -> tuple[Node, ...]:
        after = ("load Q", "scores", "store S") if spilled else ("load Q", "scores")
        load = steps.load("K", keys * self.d, after=after, jump=jump)
        scores = steps.scores(rows, keys, self.d, after=("load K",), joined=False)
        stored = (steps.store("S", rows * keys, after=("scores",)),) if spilled else ()
        return (load.doing(Operation.LOAD_KEYS, rows=rows, keys=keys), scores, *stored)

    @lru_cache(maxsize=256)  # noqa: B019 - values, and few of them
    def _output_granule(self, steps: Steps, rows: int, spilled: bool, keys: int, jump: bool) -> tuple[Node, ...]:
        back = (steps.load("S", rows * keys, after=("outputs",)),) if spilled else ()
        load = steps.load("V", keys * self.value_dim, after=("probabilities", "outputs"), jump=jump)
        size, after = (rows, keys, self.value_dim), ("load S", "load V", "probabilities")
        outputs = steps.outputs(size, after=after, drained=False)
        return (*back, load.doing(Operation.LOAD_VALUES, rows=rows, keys=keys), outputs)


@lru_cache(maxsize=256)
def _row(steps: Steps, keys: int) -> tuple[Node, ...]:
    """The softmax of one complete row."""
    return (
        steps.reduction("maxima", keys, after=("scores",)),
        steps.map("subtract", keys, after=("maxima",)).doing(Operation.MAXIMUM, rows=1, keys=keys),
        steps.exponentials(keys, after=("subtract",)).doing(Operation.EXPONENTIALS, rows=1, keys=keys),
        steps.reduction("row sums", keys, after=("exponentials",), adds=True).doing(Operation.SUM, rows=1, keys=keys),
        steps.map("probabilities", keys, after=("row sums",), divides=True).doing(
            Operation.NORMALISE, rows=1, keys=keys
        ),
    )
