"""The cheapest schedule of a small game, proven by best-first search over its positions.

The search takes up positions in the order of what a game through them must cost at least, so the first end it meets is
the cheapest there is, and at any moment the lowest total still waiting is a proven lower bound. Why nothing is lost by
the positions it leaves out is argued where they are left out: ``one_shot``, ``standard``,
``standard_steps``, ``partial`` and ``evictions``.

>>> from attenio.pebbling.graph import ComputationGraph
>>> graph = ComputationGraph.from_edges([("a", "s"), ("b", "s"), ("s", "t"), ("c", "t"), ("a", "t")])
>>> solution = best_first(Game(graph=graph, red=4))
>>> solution.cost_words, solution.lower_bound_words, solution.ending.value
(4, 4, 'proven')
"""

from collections.abc import Callable
from functools import cache
from math import inf
from time import perf_counter
from typing import Any

import numpy as np

from attenio.errors import InvalidInput, MissingExtra
from attenio.pebbling.checking import check
from attenio.pebbling.game import Game, Variant
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.schedule import Schedule
from attenio.pebbling.solution import Ending, Solution
from attenio.pebbling.solving.first_schedule import first_schedule
from attenio.pebbling.solving.search.encoding import HEADER, POSITION_WORDS, VARIANT, VARIANTS, Encoded, encode
from attenio.quantities import show_words

Progress = Callable[[int, int], None]

# Between two looks at the clock, in seconds.
_PAUSE_S = 0.1
_MOST_LEVELS = 2**26
# Positions are numbered with 32 bits.
_MOST_POSITIONS = 2**31 - 2


def best_first(
    game: Game,
    *,
    time_limit_s: float = 60.0,
    memory_limit_bytes: int = 2 * 2**30,
    progress: Progress | None = None,
    upper: Schedule | None = None,
) -> Solution:
    """The least cost of a game with a schedule of that cost; at a limit, the best known and a proven lower bound.

    ``upper`` is a schedule to beat: positions that cannot lead to a cheaper one are not kept.
    ``progress`` is called several times a second with the lower bound so far and the cost of the best schedule so far.
    The first search on a computer compiles the code for every kind of game, and for large graphs too: a minute or so,
    which the time limit does not count.
    """
    try:
        from attenio.pebbling.solving.search import replaying, table
    except ImportError as missing:
        raise MissingExtra("best-first search", "pebble") from missing
    encoded, originals = encode(game)
    known = _known(game, upper)
    known_cost = known.cost_words(game.graph)
    if known_cost - encoded.compulsory > _MOST_LEVELS:
        raise InvalidInput(
            f"costs of {game.graph.name} range over {show_words(known_cost - encoded.compulsory)}; best-first"
            " search takes"
            f" up to {_MOST_LEVELS:,}: use smaller weights"
        )
    if known_cost == encoded.compulsory:
        return _solution(game, known, known_cost, Ending.PROVEN)
    compile_search()
    search = _Search(table, encoded, known_cost, memory_limit_bytes)
    ending = search.run(time_limit_s, progress)
    if search.best_position >= 0:
        known = replaying.replay(game, encoded, originals, search.way())
    bound = known.cost_words(game.graph) if ending is Ending.PROVEN else search.lower_bound
    return _solution(game, known, bound, ending, search.seconds, search.explored)


def _known(game: Game, upper: Schedule | None) -> Schedule:
    """The cheaper of the schedule to beat and one made at once."""
    first = first_schedule(game)
    if upper is None:
        return first
    verdict = check(game, upper)
    if not verdict.legal:
        raise InvalidInput(f"the schedule to beat is illegal: {verdict.complaint}; give a legal one")
    return min(upper, first, key=lambda schedule: schedule.cost_words(game.graph))


def _solution(
    game: Game, schedule: Schedule, bound: int, ending: Ending, seconds: float = 0.0, explored: int = 0
) -> Solution:
    cost = schedule.cost_words(game.graph)
    return Solution(
        game=game,
        schedule=schedule,
        cost_words=cost,
        lower_bound_words=bound,
        ending=Ending.PROVEN if bound == cost else ending,
        engine="best-first search",
        seconds=seconds,
        explored=explored,
    )


@cache
def compile_search() -> None:
    """Search a game of seven vertices by all rules, so that compiling, or reading what was compiled, is on no clock.

    If anything had to be compiled, so is the search for large graphs: who has to wait waits once.
    """
    from attenio.pebbling.compiled import noticing, uncollected
    from attenio.pebbling.scheduling.search import compile_scheduling
    from attenio.pebbling.solving.search import replaying, table

    # In so little memory no way is forced from end to end, so that its steps are replayed too.
    sums = [(f"x{each}", f"s{j}") for j in range(3) for each in (j, (j + 1) % 3)]
    graph = ComputationGraph.from_edges([*sums, *((f"s{j}", "t") for j in range(3))])
    with uncollected(), noticing() as compiling:
        for variant in Variant:
            red = 2 if variant is Variant.PARTIAL else 4
            game = Game(graph=graph, red=red, variant=variant)
            encoded, originals = encode(game)
            search = _Search(table, encoded, 2 * len(graph), 2**22)
            search._run(inf, None)  # however long compiling takes; Ctrl-C ends it
            table.enlarge(encoded.table, search.store)
            replaying.replay(game, encoded, originals, search.way())
    if compiling.began:
        compile_scheduling()


class _Search:
    """A search that can be paused: the compiled loop runs for a moment, then limits and interrupts are looked at."""

    def __init__(self, tables: Any, encoded: Encoded, known_cost: int, memory_limit_bytes: int) -> None:
        from attenio.pebbling.solving.search.evictions import scratch

        began = perf_counter()
        self.tables, self.encoded = tables, encoded
        words = len(encoded.stored)
        positions = min(_MOST_POSITIONS, max(1024, memory_limit_bytes // tables.Store.bytes_per_position(words)))
        self.store = tables.store_for(positions, encoded, known_cost)
        self.room = scratch(1024, encoded.vertices, encoded.edges)
        self.began, self.seconds = began, 0.0
        self.stride = self.last_round = self.before_round = 0
        if encoded.table[HEADER, VARIANT] == VARIANTS[Variant.STANDARD]:
            self._begin_again(encoded.compulsory)
        else:
            tables.begin(encoded.table, self.room, self.store, np.zeros(POSITION_WORDS, dtype=np.uint64))

    def _begin_again(self, ceiling: int) -> None:
        start = np.zeros(POSITION_WORDS, dtype=np.uint64)
        self.tables.begin_again(self.encoded.table, self.room, self.store, start, ceiling)

    def _raise_ceiling(self) -> bool:
        """Search again with the lowest ceiling that helps; False if there is none.

        Where that does not double the positions taken up, ceilings rise in larger and larger strides: many totals are
        possible then, and searching again for each would take longer than keeping some positions too many.
        """
        state, tables = self.store.state, self.tables
        beyond = int(state[tables.BEYOND])
        if beyond >= self.best_cost:
            return False
        this_round = self.explored - self.before_round
        self.stride = 0 if this_round >= 2 * self.last_round else max(1, 2 * self.stride)
        self.last_round, self.before_round = this_round, self.explored
        self._begin_again(max(beyond, int(state[tables.CEILING]) + self.stride))
        return True

    @property
    def best_cost(self) -> int:
        """The cost of the best schedule known."""
        return int(self.store.state[self.tables.BEST])

    @property
    def best_position(self) -> int:
        """The number of its last position, -1 if the search has not met an end."""
        return int(self.store.state[self.tables.BEST_POSITION])

    @property
    def lower_bound(self) -> int:
        """What every schedule costs at least."""
        state = self.store.state
        level = int(state[self.tables.LEVEL]) + self.encoded.compulsory
        return min(self.best_cost, max(level, int(state[self.tables.PROVEN])))

    @property
    def explored(self) -> int:
        """Positions taken up."""
        return int(self.store.state[self.tables.EXPLORED])

    def run(self, time_limit_s: float, progress: Progress | None) -> Ending:
        """Search until the end, a limit, or Ctrl-C."""
        try:
            return self._run(time_limit_s, progress)
        except KeyboardInterrupt:
            return Ending.INTERRUPTED
        finally:
            self.seconds = perf_counter() - self.began

    def _run(self, time_limit_s: float, progress: Progress | None) -> Ending:
        tables, steps = self.tables, 64
        while True:
            before = perf_counter()
            answer = tables.advance(self.encoded.table, self.room, self.store, steps)
            now = perf_counter()
            if progress is not None:
                progress(self.lower_bound, self.best_cost)
            if answer == tables.EXHAUSTED or (answer == tables.CEILING_MET and not self._raise_ceiling()):
                return Ending.PROVEN
            if answer == tables.MEMORY_FULL:
                return Ending.MEMORY
            if now - self.began > time_limit_s:
                return Ending.TIME
            if answer == tables.TABLE_FULL:
                self.store = tables.enlarge(self.encoded.table, self.store)
            elif answer == tables.ROOM_FULL:
                self._grow_room()
            elif now - before < _PAUSE_S / 2:
                steps *= 2
            elif now - before > _PAUSE_S:
                steps = max(1, steps // 2)

    def _grow_room(self) -> None:
        from attenio.pebbling.solving.search.evictions import scratch

        self.room = scratch(4 * len(self.room.successors), self.encoded.vertices, self.encoded.edges)

    def way(self) -> list[Any]:
        """The positions from the first to the end of the best schedule."""
        way = []
        number = self.best_position
        while number >= 0:
            position = np.zeros(POSITION_WORDS, dtype=np.uint64)
            position[self.encoded.stored] = self.store.keys[number]
            way.append((position, int(self.store.costs[number])))
            number = int(self.store.origins[number])
        return way[::-1]
