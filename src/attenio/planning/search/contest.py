"""The contest of all dataflows: the one with the least floor is searched first, and rules out most of the others."""

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
# Forms of every contender.
_OfEach = tuple[tuple[Entrant, ...], ...]


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
    if workload.direction is Direction.BACKWARD:
        separate = separate.heads_as_rows
    room = fast_words - separate.held_words
    of_each, spilled = entrants_of(workload.direction, separate)
    entrants, promising = _entrants(workload, separate, of_each, room)
    # Words that the entrant of this rank is known to reach, though its tiles are not yet known.
    reached, compulsory = _reached_at_once(promising, room), workload.compulsory_words - separate.loaded_once
    waiting: list[tuple[float, int, Entrant, Problems]] = []
    close = workload.direction is Direction.FORWARD
    # Causal rows that roll are counted first, with no floor of their own, which ends a search as soon.
    causal = close and separate.counts.kind.rows_alone
    if exceeds(separate.runs * spilled.of(separate.counts), reached.words):
        entrants = [each for each in entrants if not each[0].spills]
    known = next((place for place, (each, _) in enumerate(entrants) if each.rank == reached.rank), None)
    if known is not None:  # whoever is known to reach so few words needs no floor if nobody else can
        entrants.append(entrants.pop(known))
    for entrant, problems in entrants:
        rank, form = entrant.rank, entrant.form
        limit = reached.limit(rank)
        if compulsory <= limit:
            at_once = (rank == reached.rank and not waiting) or (causal and form.names[0] == "rolling_rows")
            closely = close and rank != reached.rank and not (causal and waiting)
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


def _entrants(workload: Workload, separate: Problems, of_each: _OfEach, fast_words: int) -> tuple[_Entrants, _Entrants]:
    """The forms of all dataflows that may win, and those of them that promise the most."""
    if workload.has_scales or workload.sinks or workload.softcap is not None:  # which not all dataflows compute
        of_each = tuple([every if every and computes(workload, every[0].dataflow) else () for every in of_each])
    if workload.direction is Direction.FORWARD:
        return _forward_entrants(workload, separate, of_each, fast_words)
    entrants = [(each, separate) for every in of_each for each in every]
    # elsewhere dataflows that spill win, which have more tiles
    large = fast_words >= 2 * workload.d * workload.value_dim
    return entrants, [(_promising_gradient(separate, of_each, fast_words), separate)] if large else []


def _forward_entrants(
    workload: Workload, separate: Problems, of_each: _OfEach, fast_words: int
) -> tuple[_Entrants, _Entrants]:
    """Attenio the first unless kept keys move less with each of its tiles.

    Not the forms of FLAT if attenio holds as many rows with less, nor resident rows of score-stationary beside which
    elements pass, unless whole keys leave room for fewer rows.
    """
    attenio, stacked, kept_keys, kept_rows, first, flat, tiling, scores = of_each
    held, beside_keys, of_requests = _stationary(separate, attenio[0].form, fast_words), 0, separate
    if isinstance(workload.mask, SharedPrefix):
        of_requests = Problems.stacked(workload, separate.granularity)
    elif separate.group == 1:
        stacked = ()
    if kept_keys:
        beside_keys = beside_one_key(kept_keys[0].form, fast_words)
        if _keep_more(separate, kept_keys[0].form, held, fast_words):
            attenio = ()
    if held >= max(_stationary(separate, flat[0].form, fast_words), 1):
        flat = ()
    rows = separate.heads_as_rows
    if rows is not separate:
        *_, of_tiling, of_scores = entrants_of(Direction.FORWARD, rows).of_each
        tiling, scores = _with_forms(tiling, of_tiling), _with_forms(scores, of_scores)
    if scores:
        scores = _without_few_rows(rows, scores, fast_words, beside_keys)
    entrants = [(each, separate) for each in attenio]
    several = [(each, of_requests) for each in stacked]
    entrants += several
    entrants += [(each, separate) for each in (*kept_keys, *kept_rows, *first, *flat)]
    entrants += [(each, rows) for each in (*tiling, *scores)]
    promising = several or entrants[:1]
    # stacked heads never move more than single ones; stacked requests may
    return entrants, [*promising, entrants[0]] if several and attenio and of_requests is not separate else promising


def _with_forms(every: tuple[Entrant, ...], others: tuple[Entrant, ...]) -> tuple[Entrant, ...]:
    """The same, as far as there are any, with the forms of other problems of the same kind."""
    if not every:
        return every
    return tuple([each._replace(form=other.form) for each, other in zip(every, others, strict=True)])


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


def _reached_at_once(promising: _Entrants, fast_words: int) -> _Reached:
    """What a promising tile moves; infinite if none fits."""
    words = [(some_words(problems, each.form, fast_words), each.rank) for each, problems in promising]
    reached = [_Reached(moved, rank) for moved, rank in words if moved is not None]
    return min(reached) if reached else _Reached(inf, -1)


def _promising_gradient(problems: Problems, of_each: _OfEach, fast_words: int) -> Entrant:
    """Kept rows, of the last dataflow, where slots may hold the rows that a key needs; two passes otherwise."""
    last = of_each[-1]
    if last:
        (phase,) = last[0].form.phases
        assert isinstance(phase, KeptTile)
        if problems.counts.scores * phase.per_slot <= problems.counts.keys * (fast_words - phase.beside):
            return last[0]
    return next(every[0] for every in of_each if every)


def applies(workload: Workload, dataflow: Dataflow) -> bool:
    """Whether a dataflow can read the keys and knows sinks and caps, and differs from the simpler one it extends."""
    if not computes(workload, dataflow):
        return False
    if dataflow is Dataflow.STACKED_GROUPS:
        return workload.group > 1 or isinstance(workload.mask, SharedPrefix)
    if dataflow is Dataflow.SPLIT_KEYS:
        return problems_of(workload, dataflow).counts.most_keys > 1
    return True
