"""Is 4 the right constant in 4n²d²/M? Exact optima of small attention games beside closed forms and bounds.

    .venv/bin/python studies/is-the-constant-optimal/run.py [--limit 60]

solves every game of the list below with both engines and writes results.json beside this file. A game that is there
already, solved or tried with at least the same time limit, is not solved again: a run that was stopped goes on.
Removing the file starts anew.
"""

import argparse
import json
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from attenio.bounds import Strength, bounds_for
from attenio.errors import DoesNotFit
from attenio.files import write_atomically
from attenio.measurement.provenance import provenance
from attenio.pebbling import Game, Variant, check
from attenio.pebbling.graph import ComputationGraph
from attenio.pebbling.graphs.accumulation import Accumulation
from attenio.pebbling.graphs.attention import Head, Softmax, attention
from attenio.pebbling.solving.best_first import best_first
from attenio.pebbling.solving.cp_sat import cp_sat
from attenio.planning import best_plan_for
from attenio.planning.plan import Dataflow
from attenio.workload import Workload

RESULTS = Path(__file__).parent / "results.json"
# rows, keys, d
SHAPES = [(1, 2, 1), (2, 2, 1), (2, 3, 1), (3, 2, 1), (3, 3, 1), (2, 4, 1), (3, 4, 1), (1, 2, 2), (2, 2, 2), (2, 3, 2)]


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

    @property
    def graph(self) -> ComputationGraph:
        return attention(
            Head(rows=self.rows, keys=self.keys, d=self.d),
            softmax=Softmax(self.softmax),
            accumulation=Accumulation(self.accumulation),
        )

    @property
    def position(self) -> Game:
        return Game(graph=self.graph, red=self.red, variant=Variant(self.game), sliding=self.sliding)


FORMS = [
    ("unshifted", "chain", "standard", True),
    ("online", "chain", "standard", True),
    ("unshifted", "chain", "standard", False),
    ("unshifted", "wide", "partial", False),
]


def counted(workload: Workload, fast_words: int) -> dict[str, int]:
    """Words of every dataflow that fits this memory, with its best tiles."""
    found = {}
    for dataflow in Dataflow.towards(workload.direction):
        try:
            found[dataflow.value] = best_plan_for(workload, fast_words, dataflow=dataflow).moved_words
        except DoesNotFit:
            continue
    return found


def answer(question: Question, limit: float) -> dict[str, Any]:
    """The optimum by both engines, every absolute bound, every dataflow."""
    game = question.position
    searched = best_first(game, time_limit_s=limit)
    solved = cp_sat(game, time_limit_s=limit / 3, upper=searched.schedule)
    for solution in (searched, solved):
        verdict = check(game, solution.schedule)
        assert verdict.legal, verdict.complaint
        assert verdict.cost_words == solution.cost_words
    cost = min(searched.cost_words, solved.cost_words)
    proven = max(searched.lower_bound_words, solved.lower_bound_words)
    assert proven <= cost, "the engines contradict each other"
    workload = Workload(queries=question.rows, keys=question.keys, d=question.d, dtype="fp32")
    bounds = {b.theorem: b.words for b in bounds_for(workload, question.red) if b.strength is Strength.ABSOLUTE}
    assert max(bounds.values()) <= cost, "a bound is above a schedule"
    return {
        **asdict(question),
        "vertices": len(game.graph),
        "cost_words": cost,
        "proven_words": proven,
        "optimal": cost == proven,
        "limit_seconds": limit,
        "engines": [
            {
                "engine": s.engine,
                "cost_words": s.cost_words,
                "proven_words": s.lower_bound_words,
                "seconds": s.seconds,
                "explored": s.explored,
            }
            for s in (searched, solved)
        ],
        "compulsory_words": workload.compulsory_words,
        "absolute_bounds": bounds,
        "dataflows": counted(workload, question.red),
    }


def games_of(form: Question, done: dict[tuple[Any, ...], dict[str, Any]], limit: float) -> Iterator[dict[str, Any]]:
    """Answers for one shape and form: from the fewest red pebbles with which nothing moves twice, downwards."""
    plenty = Game(graph=form.graph, red=10**6, variant=Variant(form.game), sliding=form.sliding)
    enough, unsolved = len(form.graph), 0
    for red in range(len(form.graph), plenty.fewest_red - 1, -1):
        trial = best_first(replace(form, red=red).position, time_limit_s=limit)
        if trial.cost_words > form.graph.compulsory_words:
            break
        enough = red
    for red in range(enough, plenty.fewest_red - 1, -1):
        question = replace(form, red=red)
        row = done.get(_key(asdict(question))) or answer(question, limit)
        yield row
        unsolved += not row["optimal"]
        if unsolved == 2:  # fewer pebbles are harder still
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for the search; a third of it for CP-SAT")
    limit = parser.parse_args().limit
    known = json.loads(RESULTS.read_text())["games"] if RESULTS.exists() else []
    done = {_key(row): row for row in known if row["optimal"] or row["limit_seconds"] >= limit}
    shown = ("rows", "keys", "d", "softmax", "game", "sliding", "red", "cost_words", "proven_words")
    for rows, keys, d in SHAPES:
        for softmax, accumulation, game, sliding in FORMS:
            form = Question(rows, keys, d, softmax, accumulation, game, sliding, 0)
            for row in games_of(form, done, limit):
                done[_key(row)] = row
                write(list(done.values()))
                print(*(row[name] for name in shown), row["dataflows"].get("attenio"), flush=True)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in Question.__dataclass_fields__)


def write(games: list[dict[str, Any]]) -> None:
    made_by = {**asdict(provenance()), "platform": platform.machine(), "python": platform.python_version()}
    write_atomically(RESULTS, json.dumps({"provenance": made_by, "games": games}, indent=1) + "\n")


if __name__ == "__main__":
    main()
