"""Is 4 the right constant in 4n²d²/M? Exact optima of small attention games beside closed forms and bounds.

    .venv/bin/python studies/is-the-constant-optimal/run.py [--limit 60]

solves every game of the list below with both engines, two games at a time, and those of whole_rows.py, and writes
results.json, answer.md and figure.svg beside this file. A game that is there already, solved or tried with at least the
same time limit, is not solved again: a run that was stopped goes on. Plans and bounds are counted anew for all of them.
Removing results.json starts anew; --only-text writes the answer anew from the results.
"""

import argparse
import json
import platform
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from threading import Lock
from time import process_time
from typing import Any

import numpy as np
from answer import answer, figure
from numpy.typing import NDArray
from solved import GRADIENT, ONLINE, PARTIAL, STANDARD, STRICT
from whole_rows import solve_whole_rows

from attenio.bounds import Strength, bounds_for
from attenio.errors import DoesNotFit
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.pebbling import Game, Variant, check
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.graphs.accumulation import Accumulation
from attenio.pebbling.graphs.attention import Head, Softmax, attention
from attenio.pebbling.graphs.attention_backward import attention_backward
from attenio.pebbling.scheduling import find_schedule
from attenio.pebbling.solving.cp_sat.solver import cp_sat
from attenio.pebbling.solving.first_schedule import first_schedule
from attenio.pebbling.solving.search.solver import best_first
from attenio.planning import best_plan_for
from attenio.planning.plan import Dataflow
from attenio.workload import Workload

RESULTS = Path(__file__).parent / "results.json"
# Two games at a time, each with a core of its own.
CORES = 2
MEMORY_BYTES = 4 * 2**30
# Shares of the limit: for the order search, whose schedule the engines are to beat; for CP-SAT where the search has not
# solved the game, and where it has.
ORDER_SHARE, CP_SAT_SHARE, AGREEMENT_SHARE = 1 / 12, 1 / 3, 1 / 10
# rows, keys, d; small ones first, since a game beyond the engines tells which larger ones are.
SHAPES = [
    *((1, keys, 1) for keys in (2, 3, 4, 6, 8)),
    *((2, keys, 1) for keys in (2, 3, 4, 5, 6)),
    *((3, keys, 1) for keys in (2, 3, 4, 5)),
    *((1, keys, 2) for keys in (2, 3, 4, 6)),
    *((1, keys, 3) for keys in (2, 3, 4, 6)),
    *((2, keys, 2) for keys in (2, 3, 4)),
]
# The other forms are for comparison, at the smaller shapes.
PROVEN = (Strength.ABSOLUTE, Strength.ORDINARY)
COMPARED = [(1, 2, 1), (1, 3, 1), (1, 4, 1), (2, 2, 1), (2, 3, 1), (2, 4, 1), (3, 2, 1), (1, 2, 2)]
# rows, keys, d, width of values, mask: what the planner has schedules of its own for.
MASKED = [
    *((n, n, d, d, mask) for mask in ("causal", "window:2") for n, d in ((3, 1), (4, 1), (3, 2))),
    *((rows, 2, d, dv, "dense") for rows in (1, 2) for d, dv in ((1, 2), (1, 3), (2, 1))),
]
GRADIENTS = [
    *((*shape, "dense") for shape in ((1, 2, 1, 1), (2, 1, 1, 1), (1, 3, 1, 1), (3, 1, 1, 1), (2, 2, 1, 1))),
    *((*shape, "dense") for shape in ((1, 2, 2, 2), (2, 1, 2, 2), (1, 2, 1, 2), (1, 2, 2, 1))),
    (2, 2, 1, 1, "causal"),
    (3, 3, 1, 1, "window:2"),
]


@dataclass(frozen=True)
class Question:
    """One game: a shape of attention, a form of its graph, rules and red pebbles."""

    rows: int
    keys: int
    d: int
    softmax: str
    accumulation: str
    game: str
    sliding: bool
    red: int
    value_dim: int = 0
    mask: str = "dense"

    @property
    def direction(self) -> str:
        return "backward" if self.softmax == GRADIENT[0] else "forward"

    @property
    def workload(self) -> Workload:
        sizes = {"queries": self.rows, "keys": self.keys, "d": self.d, "value_dim": self.value_dim or self.d}
        return Workload(**sizes, mask=self.mask, direction=self.direction, dtype="fp32")

    @property
    def graph(self) -> ComputationGraph:
        head = Head(
            rows=self.rows, keys=self.keys, d=self.d, value_dim=self.value_dim, required=required(self.workload)
        )
        sums = Accumulation(self.accumulation)
        if self.direction == "backward":
            return attention_backward(head, accumulation=sums)
        return attention(head, softmax=Softmax(self.softmax), accumulation=sums)

    @property
    def position(self) -> Game:
        return Game(graph=self.graph, red=self.red, variant=Variant(self.game), sliding=self.sliding)


def required(workload: Workload) -> NDArray[np.bool_]:
    """Which scores the mask requires."""
    (pattern, _), *_ = workload.separate_patterns
    found = np.zeros((pattern.rows, pattern.keys), dtype=np.bool_)
    for row in range(pattern.rows):
        found[row, pattern.needed_keys(row, row + 1)] = True
    return found


def counted(workload: Workload, fast_words: int) -> dict[str, int]:
    """Words of every dataflow that fits this memory, with its best tiles."""
    found = {}
    for dataflow in Dataflow.towards(workload.direction):
        try:
            found[dataflow.value] = best_plan_for(workload, fast_words, dataflow=dataflow).moved_words
        except DoesNotFit:
            continue
    return found


def solution(question: Question, limit: float) -> dict[str, Any]:
    """The optimum by both engines."""
    game = question.position
    ordered = find_schedule(game, time_limit_s=limit * ORDER_SHARE)
    began = process_time()
    searched = best_first(game, time_limit_s=limit, memory_limit_bytes=MEMORY_BYTES, upper=ordered.schedule)
    search_cpu_seconds = process_time() - began
    share = AGREEMENT_SHARE if searched.cost_words == searched.lower_bound_words else CP_SAT_SHARE
    solved = cp_sat(game, time_limit_s=limit * share, workers=1, upper=searched.schedule)
    for solution in (ordered, searched, solved):
        verdict = check(game, solution.schedule)
        assert verdict.legal, verdict.complaint
        assert verdict.cost_words == solution.cost_words
    cost = min(searched.cost_words, solved.cost_words)
    proven = max(searched.lower_bound_words, solved.lower_bound_words)
    assert proven <= cost, "the engines contradict each other"
    return {
        **asdict(question),
        "commit": provenance().commit,
        "vertices": len(game.graph),
        "cost_words": cost,
        "proven_words": proven,
        "optimal": cost == proven,
        "limit_seconds": limit,
        "search_cpu_seconds": search_cpu_seconds,
        "order_search_words": ordered.cost_words,
        "engines": [
            {
                "engine": s.engine,
                "cost_words": s.cost_words,
                "proven_words": s.lower_bound_words,
                "seconds": s.seconds,
                "explored": s.explored,
                "ending": s.ending.value,
            }
            for s in (searched, solved)
        ],
        "compulsory_words": game.graph.compulsory_words,
    }


def compared(row: dict[str, Any]) -> dict[str, Any]:
    """A game with every absolute or ordinary bound and every dataflow, as they are now."""
    workload = Question(**{name: row[name] for name in Question.__dataclass_fields__}).workload
    bounds = {b.theorem: b.words for b in bounds_for(workload, row["red"]) if b.strength in PROVEN}
    assert max(bounds.values()) <= row["cost_words"], "a bound is above a schedule"
    return {**row, "absolute_bounds": bounds, "dataflows": counted(workload, row["red"])}


class Results:
    """The games so far, in the file after each one."""

    def __init__(self, limit: float) -> None:
        self.kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"games": [], "row_games": []}
        self.limit = limit
        known = {_key(row): row for row in self.kept["games"]}
        # Games that were tried for less time stay in the file until they are tried again.
        self.games = {key: row for key, row in known.items() if row["optimal"] or row["limit_seconds"] >= limit}
        self.others = {key: row for key, row in known.items() if key not in self.games}
        self.lock = Lock()

    def known(self, question: Question) -> dict[str, Any] | None:
        """The answer to a question that was asked before."""
        return self.games.get(_key(asdict(question)))

    def add(self, row: dict[str, Any]) -> None:
        """Keep an answer."""
        with self.lock:
            self.games[_key(row)] = row
            self.write()

    def write(self) -> None:
        """Write all that is known."""
        self.kept["games"] = list({**self.others, **self.games}.values())
        made_by = {**asdict(provenance()), "platform": platform.machine(), "python": platform.python_version()}
        write_atomically(RESULTS, json.dumps({**self.kept, "provenance": made_by}, indent=1) + "\n")

    def write_row_games(self, row_games: list[dict[str, Any]]) -> None:
        """Keep games of whole rows."""
        with self.lock:
            self.kept["row_games"] = row_games
            self.write()

    def hopeless(self, question: Question) -> bool:
        """Whether a game no larger, with no fewer red pebbles, was not solved in the time."""
        return any(
            not row["optimal"]
            and _rules(row) == _rules(asdict(question))
            and row["red"] >= question.red
            and all(row[side] <= getattr(question, side) for side in ("rows", "keys", "d", "value_dim"))
            for row in list(self.games.values())
        )


def series(form: Question, results: Results) -> Iterator[Question]:
    """Games of one shape and form that are to be solved, from so many red pebbles that nothing moves twice, downwards.

    Fewer pebbles are harder. Two games may remain unsolved if the first leaves open whether anything moves twice.
    """
    plenty = Game(graph=form.graph, red=10**6, variant=Variant(form.game), sliding=form.sliding)
    compulsory, unsolved = form.graph.compulsory_words, 0
    enough = next(
        red
        for red in range(plenty.fewest_red, 10**6)
        if first_schedule(replace(form, red=red).position).cost_words(form.graph) == compulsory
    )
    for red in range(enough, plenty.fewest_red - 1, -1):
        question = replace(form, red=red)
        row = results.known(question)
        if row is None:
            if unsolved == 0 and results.hopeless(question):
                return
            yield question
            row = results.known(question)
        assert row is not None
        unsolved += not row["optimal"]
        if unsolved == 2 or (unsolved and row["proven_words"] > compulsory):
            return


def solve_all(results: Results) -> None:
    """Two shapes and forms side by side, their games one after the other, each game in another process."""
    shown = ("rows", "keys", "d", "softmax", "game", "sliding", "red", "cost_words", "proven_words")

    def solve(form: Question) -> None:
        for question in series(form, results):
            row = processes.submit(solution, question, results.limit).result()
            results.add(row)
            print(*(row[name] for name in shown), *(round(e["seconds"], 1) for e in row["engines"]), flush=True)

    spawning = get_context("spawn")  # a fork would copy the threads' locks as they happen to be
    with ProcessPoolExecutor(CORES, mp_context=spawning) as processes, ThreadPoolExecutor(CORES) as threads:
        list(threads.map(solve, forms()))


def forms() -> Iterator[Question]:
    """Every shape in its forms, without red pebbles yet."""
    yield from (Question(*shape, *form, 0) for shape in SHAPES for form in (STANDARD, PARTIAL))
    yield from (Question(*shape, *form, 0) for shape in COMPARED for form in (ONLINE, STRICT))
    for form, shapes in ((STANDARD, MASKED), (GRADIENT, GRADIENTS)):
        yield from (Question(*shape[:3], *form, 0, *shape[3:]) for shape in shapes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for the search; a third of it for CP-SAT")
    parser.add_argument("--only-text", action="store_true", help="write the answer again, solve nothing")
    arguments = parser.parse_args()
    results = Results(arguments.limit)
    if not arguments.only_text:
        solve_whole_rows(results.kept["row_games"], results.write_row_games)
        solve_all(results)
        results.games = {key: compared(row) for key, row in {**results.others, **results.games}.items()}
        results.write()
    write_atomically(RESULTS.with_name("answer.md"), answer(results.kept))
    write_atomically(RESULTS.with_name("figure.svg"), figure(results.kept["games"]))


def _rules(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("softmax", "accumulation", "game", "sliding", "mask"))


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in Question.__dataclass_fields__)


if __name__ == "__main__":
    main()
