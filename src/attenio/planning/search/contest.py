"""The contest of all dataflows: the one with the least floor is searched first, and rules out most of the others."""

from itertools import repeat
from math import inf
from operator import itemgetter
from typing import NamedTuple

from attenio.masks import SharedPrefix
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import floor_div
from attenio.planning.costs import computes, problems_of
from attenio.planning.plan import Dataflow, MovingTiles, Plan, TileRule
from attenio.planning.problems import Problems
from attenio.planning.problems.counting import peak_words
from attenio.planning.search.dataflow import Entrant, entrants_of, exceeds
from attenio.planning.search.forms import best_of_form, floor_of_form, most_rows, some_words
from attenio.planning.search.kept_band import keeps_more
from attenio.planning.words.form import Form, KeptTile, RowTile
from attenio.workload import Direction, Workload

# Those that may win, each with what it would work on.
_Entrants = list[tuple[Entrant, Problems]]


class _Reached(NamedTuple):
    """The fewest words known to be reached, and the rank of the entrant that reaches them."""

    words: float
    rank: int

    def limit(self, rank: int) -> float:
        """The words that others may have at most: of two that move the same the one that is preferred wins."""
        return self.words if rank <= self.rank else self.words - 1


def best_of_all(workload: Workload, fast_words: int, separate: Problems) -> Plan | None:
    """The best plan of any dataflow of the workload's direction, or None if none fits.

    ``separate`` are the problems of the workload, with all that is known about them; its tiles have their granularity.
    """
    room = fast_words - separate.held_words
    entrants = _entrants(workload, separate, room)
    # Words that the entrant of this rank is known to reach, though its tiles are not yet known.
    reached, compulsory = _reached_at_once(workload, entrants, room), workload.compulsory_words - separate.loaded_once
    waiting: list[tuple[float, int, Entrant, Problems]] = []
    close = workload.direction is Direction.FORWARD
    # Causal rows that roll are counted first, with no floor of their own, which ends a search as soon.
    causal = close and separate.counts.roll(keys=False) and not separate.counts.roll(keys=True)
    known = next((place for place, (each, _) in enumerate(entrants) if each.rank == reached.rank), None)
    if known is not None:  # whoever is known to reach so few words needs no floor if nobody else can
        entrants.append(entrants.pop(known))
    for entrant, problems in entrants:
        rank, _, form = entrant
        limit = reached.limit(rank)
        if compulsory <= limit:
            at_once = (rank == reached.rank and not waiting) or (causal and form.names[0] == "rolling_rows")
            closely = close and not (causal and waiting)
            floor = 0 if at_once else floor_of_form(problems, form, room, limit, closely=closely)
            if floor < inf and not exceeds(floor, limit):
                waiting.append((floor, rank, entrant, problems))
    best: tuple[MovingTiles, Entrant, Problems] | None = None
    waiting.sort(key=itemgetter(0, 1))
    for floor, rank, entrant, problems in waiting:
        limit = reached.limit(rank)
        if compulsory <= limit and not exceeds(floor, limit):
            within = None if limit == inf else int(limit)
            offered = best_of_form(problems, entrant.form, room, within)
            if offered is not None and offered.moved_words <= limit:
                best, reached = (offered, entrant, problems), _Reached(offered.moved_words, rank)
    if best is None:
        return None
    offered, entrant, problems = best
    return Plan(
        workload=workload,
        fast_words=fast_words,
        dataflow=entrant.dataflow,
        tiles=offered.tiles,
        rule=TileRule.BEST,
        moved_words=offered.moved_words + separate.loaded_once,
        peak_words=peak_words(problems, entrant.form, offered.tiles) + separate.held_words,
    )


def _entrants(workload: Workload, separate: Problems, fast_words: int) -> _Entrants:
    """The forms of all dataflows that may win, attenio the first unless kept keys move less with each of its tiles.

    Not those of FLAT if attenio holds as many rows with less, nor of flash-attention-1 where kept rows pass by the same
    keys with less room, which they do unless heads share these; nor resident rows of score-stationary beside which
    elements pass, unless whole keys leave room for fewer rows.
    """
    of_each = entrants_of(workload.direction, separate)
    if workload.has_scales or workload.sinks or workload.softcap is not None:  # which not all dataflows compute
        of_each = {dataflow: every for dataflow, every in of_each.items() if computes(workload, dataflow)}
    if workload.direction is Direction.BACKWARD:
        return [(each, separate) for every in of_each.values() for each in every]
    entrants: _Entrants = []
    held, beside_keys = 0, 0
    for dataflow, every in of_each.items():
        problems = separate
        first = every[0].form
        if dataflow is Dataflow.STACKED_GROUPS:
            if not applies(workload, dataflow):
                continue
            of_requests = isinstance(workload.mask, SharedPrefix)
            problems = Problems.stacked(workload, separate.granularity) if of_requests else separate
        elif dataflow is Dataflow.FLASH_ATTENTION_1:
            if problems.group == 1 and problems.granularity.is_free:
                continue
        elif dataflow is Dataflow.ATTENIO:
            held = _stationary(separate, first, fast_words)
        elif dataflow is Dataflow.FLAT:
            if held >= max(_stationary(separate, first, fast_words), 1):
                continue
        elif dataflow is Dataflow.KEPT_KEYS:
            if _keep_more(separate, first, held, fast_words):
                del entrants[0]
            beside_keys = beside_one_key(first, fast_words)
        elif dataflow is Dataflow.SCORE_STATIONARY:
            every = _without_few_rows(separate, every, fast_words, beside_keys)
        entrants += zip(every, repeat(problems))
    return entrants


def _without_few_rows(
    problems: Problems, every: tuple[Entrant, ...], fast_words: int, beside_keys: int
) -> tuple[Entrant, ...]:
    """Those of score-stationary but for resident rows that are no more than what stays beside a whole key."""
    rows = next((each for each in every if each.form.names[0] == "resident_rows"), None)
    if rows is None or _stationary(problems, rows.form, fast_words) > beside_keys:
        return every
    return tuple([each for each in every if each is not rows])


def beside_one_key(form: Form, fast_words: Counts) -> Counts:
    """Rows of kept keys that fit beside one slot."""
    phase = form.phases[0]
    assert isinstance(phase, KeptTile)
    return floor_div(fast_words - phase.beside - phase.per_slot, phase.per_row)


def _keep_more(problems: Problems, form: Form, held: int, fast_words: int) -> bool:
    """Whether kept keys have room for a key beside any tile that attenio holds, and so move less with that tile."""
    (phase,), band = form.phases, problems.counts.only_band
    assert isinstance(phase, KeptTile)
    return band is not None and held < band.rows and bool(keeps_more(band, phase, held, fast_words))


def _stationary(problems: Problems, form: Form, fast_words: int) -> int:
    """Rows that stay in the first phase of a form, at most."""
    phase = form.phases[0]
    assert isinstance(phase, RowTile)
    return most_rows(problems, phase, fast_words)


def _reached_at_once(workload: Workload, entrants: _Entrants, fast_words: int) -> _Reached:
    """What a promising tile moves; infinite if none fits."""
    if workload.direction is Direction.BACKWARD:
        small = (
            fast_words < 2 * workload.d * workload.value_dim
        )  # where dataflows that spill win, which have more tiles
        promising = [] if small else [_promising_gradient(entrants, fast_words)]
    else:
        promising = [each for each in entrants[:2] if each[0].dataflow is Dataflow.STACKED_GROUPS] or entrants[:1]
        if entrants[1][1] is not entrants[0][1]:
            promising.append(entrants[0])  # stacked heads never move more than single ones; stacked requests may
    words = [(some_words(problems, each.form, fast_words), each.rank) for each, problems in promising]
    reached = [_Reached(moved, rank) for moved, rank in words if moved is not None]
    return min(reached) if reached else _Reached(inf, -1)


def _promising_gradient(entrants: _Entrants, fast_words: int) -> tuple[Entrant, Problems]:
    """Kept rows, of the last dataflow, where slots may hold the rows that a key needs; two passes otherwise."""
    last = next((each for each in entrants if each[0].dataflow is Dataflow.KEPT_ROW_GRADIENTS), None)
    if last is None:
        return entrants[0]
    (phase,), problems = last[0].form.phases, last[1]
    assert isinstance(phase, KeptTile)
    in_slots = problems.counts.scores * phase.per_slot <= problems.counts.keys * (fast_words - phase.beside)
    return last if in_slots else entrants[0]


def applies(workload: Workload, dataflow: Dataflow) -> bool:
    """Whether a dataflow can read the keys and knows sinks and caps, and differs from the simpler one it extends."""
    if not computes(workload, dataflow):
        return False
    if dataflow is Dataflow.STACKED_GROUPS:
        return workload.group > 1 or isinstance(workload.mask, SharedPrefix)
    if dataflow is Dataflow.SPLIT_KEYS:
        return problems_of(workload, dataflow).counts.most_keys > 1
    return True
