"""FLAT on the same hardware: complete rows of scores on chip, keys and then values streaming past [FLAT].

    for each tile i of queries:
        load Q_i
        K streams past, a granule of memory at a time:  S = Q_i K^T
        for each row: maximum along it; subtract, exponentials; sum along it; divide
        V streams past:  O_i = P V
        store O_i

When not one row fits, scores beyond the resident ones are stored after their granule and loaded back before it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from math import gcd, lcm

from attenio.accelerator.hardware import Hardware
from attenio.accelerator.program import Node, Operation, repeat
from attenio.accelerator.programs.query_tiles import query_tiles, tiles_of_run
from attenio.accelerator.programs.steps import Steps
from attenio.patterns import Pattern

__all__ = ["Flat"]


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
        found: tuple[Node, ...] = ()
        # tiles so far apart have equally ragged last granules, of keys and of values
        every = lcm(*(max(1, self.hardware.hbm.granule_words // width) for width in (self.d, self.value_dim)))
        for run in query_tiles(pattern, self.query_tile):
            for part in (run,) if self.resident_keys is None else run.split_at_keys(self.resident_keys):
                found += tiles_of_run(part, every // gcd(part.growth, every), partial(self._tile, part.rows))
        return found

    def _tile(self, rows: int, keys: int) -> tuple[Node, ...]:
        steps = Steps(hardware=self.hardware)
        store = steps.store("O", rows * self.value_dim, after=("outputs",)).doing(Operation.STORE_OUTPUTS, rows=rows)
        if keys == 0:
            return (store,)
        kept = keys if self.resident_keys is None else min(keys, self.resident_keys)
        return (
            steps.load("Q", rows * self.d, after=("store O",)).doing(Operation.LOAD_QUERIES, rows=rows),
            *self._scores(steps, rows, kept, jump=True),
            *self._scores(steps, rows, keys - kept, spilled=True, jump=kept == 0),
            *repeat(rows, *_row(steps, keys)),
            *self._outputs(steps, rows, kept, jump=True),
            *self._outputs(steps, rows, keys - kept, spilled=True, jump=kept == 0),
            store,
        )

    def _granules(self, width: int, keys: int) -> tuple[int, int, int]:
        """Keys of a granule of memory, how many granules there are, and the keys of the ragged one."""
        each = min(max(1, self.hardware.hbm.granule_words // width), max(keys, 1))
        return each, *divmod(keys, each)

    def _scores(self, steps: Steps, rows: int, keys: int, *, jump: bool, spilled: bool = False) -> tuple[Node, ...]:
        granule = partial(self._score_granule, steps, rows, spilled)
        return _stream(granule, self._granules(self.d, keys), jump=jump)

    def _outputs(self, steps: Steps, rows: int, keys: int, *, jump: bool, spilled: bool = False) -> tuple[Node, ...]:
        granule = partial(self._output_granule, steps, rows, spilled)
        return _stream(granule, self._granules(self.value_dim, keys), jump=jump)

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
        outputs = steps.outputs(rows, keys, self.value_dim, after=("load S", "load V", "probabilities"))
        return (*back, load.doing(Operation.LOAD_VALUES, rows=rows, keys=keys), outputs)


def _stream(
    granule: Callable[[int, bool], tuple[Node, ...]], parts: tuple[int, int, int], *, jump: bool
) -> tuple[Node, ...]:
    """Granules one after the other; only the first begins where no row is open."""
    each, whole, rest = parts
    found: tuple[Node, ...] = ()
    if whole:
        found += granule(each, jump)
        found += repeat(whole - 1, *granule(each, False))
    if rest:
        found += granule(rest, jump and not whole)
    return found


@lru_cache(maxsize=256)
def _row(steps: Steps, keys: int) -> tuple[Node, ...]:
    """The softmax of one complete row."""
    return (
        steps.reduction("maxima", keys, after=("scores",)),
        steps.map("subtract", keys, after=("maxima",)).doing(Operation.MAXIMUM, rows=1, keys=keys),
        steps.exponentials(keys, after=("subtract",)).doing(Operation.EXPONENTIALS, rows=1, keys=keys),
        steps.reduction("row sums", keys, after=("exponentials",)).doing(Operation.SUM, rows=1, keys=keys),
        steps.map("probabilities", keys, after=("row sums",)).doing(Operation.NORMALISE, rows=1, keys=keys),
    )
