"""The contest of all dataflows: the one with the least floor is searched first, and rules out most of the others."""

from math import inf
from typing import NamedTuple

from attenio.masks import SharedPrefix
from attenio.planning.costs.cost import problems_of
from attenio.planning.plan import Dataflow, MovingTiles, Plan, TileRule
from attenio.planning.problems import Problems
from attenio.planning.search.dataflow import best_tiles, contenders, fixed_words, floor_words
from attenio.planning.search.forms import most_rows, some_words
from attenio.planning.words.counting import peak_words
from attenio.planning.words.dataflows import form_with, known_forms
from attenio.planning.words.form import Rows
from attenio.workload import Direction, Workload

# Floors in floating point are off by less than this factor.
_ROUNDING = 1 - 1e-12


def best_of_all(workload: Workload, fast_words: int, separate: Problems) -> Plan | None:
    """The best plan of any dataflow of the workload's direction, or None if none fits.

    ``separate`` are the problems of the workload, with all that is known about them; its tiles have their granularity.
    """
    entrants = _entrants(workload, separate)
    # Words that the dataflow of this rank is known to reach, though its tiles are not yet known.
    known = _known_words(workload, entrants, fast_words)
    waiting = []
    for entrant in entrants:
        if known is None or known.allows(entrant, workload.compulsory_words):
            if known is not None and not known.allows(entrant, fixed_words(entrant.problems, entrant.dataflow)):
                continue
            # Whoever is known to reach so few words is searched first.
            first = known is not None and entrant.rank == known.rank
            floor = 0 if first else _floor(entrant, fast_words)
            if floor < inf and (known is None or known.allows(entrant, floor)):
                waiting.append((floor, entrant.rank, entrant))
    best: tuple[MovingTiles, _Entrant] | None = None
    for floor, rank, entrant in sorted(waiting, key=lambda each: each[:2]):
        if known is not None and not known.allows(entrant, max(floor, workload.compulsory_words)):
            continue
        limit = None if known is None else known.limit(entrant)
        found = best_tiles(entrant.problems, entrant.dataflow, fast_words, limit)
        if found is not None and (limit is None or found.moved_words <= limit):
            best, known = (found, entrant), _Known(found.moved_words, rank)
    if best is None:
        return None
    found, entrant = best
    form = form_with(entrant.problems, entrant.dataflow, found.tiles)
    return Plan(
        workload=workload,
        fast_words=fast_words,
        dataflow=entrant.dataflow,
        tiles=found.tiles,
        rule=TileRule.BEST,
        moved_words=found.moved_words,
        peak_words=peak_words(entrant.problems, form, found.tiles),
    )


class _Entrant(NamedTuple):
    """A dataflow, its place in the order of preference, and what it would work on."""

    rank: int
    dataflow: Dataflow
    problems: Problems


class _Known(NamedTuple):
    """The fewest words known to be reached, and the rank of the dataflow that reaches them."""

    words: int
    rank: int

    def limit(self, entrant: _Entrant) -> int:
        """The words that an entrant may have at most: of two that move the same the one that is preferred wins."""
        return self.words if entrant.rank <= self.rank else self.words - 1

    def allows(self, entrant: _Entrant, floor: float) -> bool:
        """Whether an entrant that has no fewer words than ``floor`` may be the best."""
        return (floor if isinstance(floor, int) else floor * _ROUNDING) <= self.limit(entrant)


def _entrants(workload: Workload, separate: Problems) -> list[_Entrant]:
    entrants = []
    for rank, dataflow in enumerate(contenders(workload.direction)):
        if applies(workload, dataflow):
            together = dataflow is Dataflow.STACKED_GROUPS and isinstance(workload.mask, SharedPrefix)
            entrants.append(
                _Entrant(rank, dataflow, Problems.stacked(workload, separate.granularity) if together else separate)
            )
    return entrants


def _known_words(workload: Workload, entrants: list[_Entrant], fast_words: int) -> _Known | None:
    """What a promising tile with scores in fast memory moves, if one fits."""
    if workload.direction is Direction.BACKWARD:
        return None  # floors of gradients differ enough to begin with the least
    single, second = entrants[:2]
    reached = []
    if second.dataflow is Dataflow.STACKED_GROUPS:
        reached.append((_some_words(second, fast_words), second.rank))
    if second.dataflow is not Dataflow.STACKED_GROUPS or second.problems is not single.problems:
        # Stacked heads never move more than single ones; stacked requests may.
        reached.append((_some_words(single, fast_words), single.rank))
    return min((_Known(words, rank) for words, rank in reached if words is not None), default=None)


def _some_words(entrant: _Entrant, fast_words: int) -> int | None:
    (form,) = known_forms(entrant.problems, entrant.dataflow)
    return some_words(entrant.problems, form, fast_words)


def _floor(entrant: _Entrant, fast_words: int) -> float:
    """Words that no tiles go below; infinite if none fits, and of FLAT if attenio holds as many rows with less."""
    problems = entrant.problems
    if entrant.dataflow is Dataflow.FLAT:
        complete, single = (
            _stationary(problems, dataflow, fast_words) for dataflow in (Dataflow.FLAT, Dataflow.ATTENIO)
        )
        if single >= max(complete, 1):
            return inf
    return floor_words(problems, entrant.dataflow, fast_words)


def _stationary(problems: Problems, dataflow: Dataflow, fast_words: int) -> int:
    """Rows that stay in the first form of a dataflow, at most."""
    phase = known_forms(problems, dataflow)[0].phases[0]
    assert isinstance(phase, Rows)
    return most_rows(problems, phase, fast_words)


def applies(workload: Workload, dataflow: Dataflow) -> bool:
    """Whether a dataflow differs from the simpler one it extends."""
    if dataflow is Dataflow.STACKED_GROUPS:
        return workload.group > 1 or isinstance(workload.mask, SharedPrefix)
    if dataflow is Dataflow.SPLIT_KEYS:
        return problems_of(workload, dataflow).most_keys > 1
    return True
