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
                write_atomically(RESULTS.with_name("answer.md"), answer_text(list(done.values())))
                print(*(row[name] for name in shown), row["dataflows"].get("attenio"), flush=True)


def answer_text(games: list[dict[str, Any]]) -> str:
    """The text beside the numbers, every one of them from the results."""
    solved = [game for game in games if game["optimal"]]
    lines = []
    for softmax, accumulation, rules, sliding in FORMS:
        for rows, keys, d in SHAPES:
            same = [g for g in games if _form(g) == (rows, keys, d, softmax, accumulation, rules, sliding)]
            if same:
                costs = ", ".join(_cost(g) for g in sorted(same, key=lambda g: g["red"]))
                how = f"{softmax}, {rules}{', sliding' if sliding else ''}"
                lines.append(f"| {how} | {rows} x {keys} | {d} | {same[0]['vertices']} | {costs} |")
    above = [g for g in solved if g["dataflows"]]
    beaten = [min(g["dataflows"].values()) / g["cost_words"] for g in above]
    tight = sum(max(g["absolute_bounds"].values()) == g["cost_words"] for g in solved)
    agree = sum(all(e["cost_words"] == e["proven_words"] for e in g["engines"]) for g in solved)
    searched = [g for g in solved if g["cost_words"] > g["compulsory_words"]]
    hardest = max(searched, key=lambda g: (g["vertices"], g["engines"][0]["explored"]))
    return _ANSWER.format(
        games=len(games),
        solved=len(solved),
        agree=agree,
        tight=tight,
        table="\n".join(lines),
        passes="\n".join(_one_pass(games)),
        **_standard_against_partial(solved),
        counted=len(above),
        least=min(beaten, default=1.0),
        most=max(beaten, default=1.0),
        limit=f"{max(g['limit_seconds'] for g in games):g}",
        rows=hardest["rows"],
        keys=hardest["keys"],
        d=hardest["d"],
        vertices=hardest["vertices"],
        red=hardest["red"],
        game=hardest["game"],
        seconds=hardest["engines"][0]["seconds"],
    )


def _standard_against_partial(solved: list[dict[str, Any]]) -> dict[str, int]:
    """How often the two games cost the same, where both are solved."""
    standard, partial = (
        {
            (g["rows"], g["keys"], g["d"], g["red"]): g["cost_words"]
            for g in solved
            if (g["softmax"], g["accumulation"], g["game"], g["sliding"]) == form
        }
        for form in (FORMS[0], FORMS[3])
    )
    both = [(standard[size], partial[size]) for size in standard if size in partial]
    return {
        "pairs": len(both),
        "equal": sum(one == other for one, other in both),
        "cheaper": sum(other < one for one, other in both),
        "dearer": sum(other > one for one, other in both),
    }


def _form(game: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(game[name] for name in ("rows", "keys", "d", "softmax", "accumulation", "game", "sliding"))


def _cost(game: dict[str, Any]) -> str:
    found = str(game["cost_words"]) if game["optimal"] else f"{game['proven_words']}..{game['cost_words']}"
    return f"{game['red']}: {found}"


def _one_pass(games: list[dict[str, Any]]) -> list[str]:
    """The least memory with which nothing moves twice, beside the least with which AttenIO manages that."""
    lines = []
    for rows, keys, d in SHAPES:
        for softmax, accumulation, rules, sliding in (FORMS[0], FORMS[3]):
            form = (rows, keys, d, softmax, accumulation, rules, sliding)
            enough = [
                g["red"]
                for g in games
                if _form(g) == form and g["optimal"] and g["cost_words"] == g["compulsory_words"]
            ]
            if enough:
                lines.append(
                    f"| {rows} x {keys} | {d} | {rules} | {min(enough)} | {_attenio_one_pass(rows, keys, d)} |"
                )
    return lines


def _attenio_one_pass(rows: int, keys: int, d: int) -> int:
    workload = Workload(queries=rows, keys=keys, d=d, dtype="fp32")
    for fast_words in range(1, 10_000):
        try:
            if best_plan_for(workload, fast_words, dataflow=Dataflow.ATTENIO).moved_words == workload.compulsory_words:
                return fast_words
        except DoesNotFit:
            continue
    raise AssertionError("everything fits ten thousand words")


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in Question.__dataclass_fields__)


def write(games: list[dict[str, Any]]) -> None:
    made_by = {**asdict(provenance()), "platform": platform.machine(), "python": platform.python_version()}
    write_atomically(RESULTS, json.dumps({"provenance": made_by, "games": games}, indent=1) + "\n")


_ANSWER = """# Is 4 the right constant in 4n²d²/M?

**What could be found.** An optimum below a dataflow's count shows room in the dataflow; an optimum equal to an
absolute bound shows that the bound cannot be raised. At sizes that can be solved the compulsory words dominate
every bound, so the constant itself shows only indirectly: in the least memory with which a number of rows is
served in one pass over the keys. If each row needs 2d words and little more, n rows take about 2dn/M passes of
2nd words: 4n²d²/M.

**Solved** (`results.json`, made by `run.py`): {solved} of {games} games, each engine having at most {limit} s
(CP-SAT a third of it). Both engines proved {agree} of them; where only one did, the other never contradicted
it. No absolute bound is above an optimum, and {tight} optima equal the largest one. Costs in words, by red
pebbles; `a..b` is proven and best known.

| game | rows x keys | d | vertices | red: cost |
|---|---|---:|---:|---|
{table}

**Standard against partial.** Of {pairs} sizes and memories at which both the standard game with sliding and the
partial game are solved (unshifted softmax), the costs are equal in {equal}; the partial game is cheaper in
{cheaper} and dearer in {dearer}: its graph has vertices for the products, and may add in any order.

**Serving rows in one pass.** The least memory with which only compulsory words move, proven:

| rows x keys | d | game | optimum (words) | AttenIO (words) |
|---|---:|---|---:|---:|
{passes}

In the {counted} solved games in which some dataflow fits, the best dataflow moves {least:.2f} to {most:.2f}
times the optimum: buffers of whole tiles are dear when memory is a handful of words.

**The largest game solved** in that time in which something has to move twice:
{rows} rows x {keys} keys, d = {d}, {vertices} vertices, {red} red
pebbles, {game} game, {seconds:.1f} s of search.

**What it says about the 4.** Little yet. No optimum contradicts 4n²d²/M or any other absolute bound, but where
rows are as many as keys it is as cheap to keep keys and let rows pass, so the words a row needs cannot be read
off this table. A series with few rows and many keys would show them, and its games are the ones still open. The
proof that 4 is right to leading order is in `docs/theory/output_epochs.md`; these optima are a check of it at
toy sizes, no more.
"""


if __name__ == "__main__":
    main()
