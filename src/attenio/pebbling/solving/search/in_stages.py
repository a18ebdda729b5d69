"""Best-first search that is given a schedule to beat where it takes more than a moment.

A search that runs into its limit knows a good lower bound and no good schedule: ends come last in its order. The
search for an order of large graphs is the other way round. So a game that is not solved in a moment gets a schedule
from there, and is then searched to the end or the limit; what cannot be cheaper is not even kept.

>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "sum"), ("b", "sum")])
>>> search_in_stages(Game(graph=graph, red=3)).cost_words
3
"""

from dataclasses import replace

from attenio.pebbling.game import Game
from attenio.pebbling.scheduling import find_schedule
from attenio.pebbling.solution import Ending, Solution
from attenio.pebbling.solving.search.solver import Progress, best_first

_MOMENT_S = 2.0
# Of the time that is left then, for the schedule to beat.
_SHARE = 1 / 10


def search_in_stages(game: Game, *, time_limit_s: float = 60.0, progress: Progress | None = None) -> Solution:
    """What ``best_first`` finds, with a better schedule where the limit is met; all stages are within the limit."""
    quick = best_first(game, time_limit_s=min(_MOMENT_S, time_limit_s), progress=progress)
    left_s = time_limit_s - quick.seconds
    if quick.ending is not Ending.TIME or left_s <= 0:
        return quick
    try:
        ordered = find_schedule(game, time_limit_s=left_s * _SHARE)
    except KeyboardInterrupt:  # while compiling
        return replace(quick, ending=Ending.INTERRUPTED)
    known = _cheaper(quick, ordered)
    left_s -= ordered.seconds
    if known.optimal or ordered.ending is Ending.INTERRUPTED or left_s <= 0:
        return known
    whole = best_first(game, time_limit_s=left_s, progress=progress, upper=known.schedule)
    return replace(
        whole,
        lower_bound_words=max(whole.lower_bound_words, quick.lower_bound_words),
        seconds=known.seconds + whole.seconds,
        explored=known.explored + whole.explored,
    )


def _cheaper(quick: Solution, ordered: Solution) -> Solution:
    """The search's own solution, with the other schedule if that is cheaper."""
    seconds = quick.seconds + ordered.seconds
    ending = Ending.INTERRUPTED if ordered.ending is Ending.INTERRUPTED else quick.ending
    if ordered.cost_words >= quick.cost_words:
        return replace(quick, seconds=seconds, ending=ending)
    proven = ordered.cost_words == quick.lower_bound_words
    return replace(
        quick,
        schedule=ordered.schedule,
        cost_words=ordered.cost_words,
        seconds=seconds,
        ending=Ending.PROVEN if proven else ending,
    )
