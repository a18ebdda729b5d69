"""``attenio pebble solve``: the cheapest schedule, and the proof that nothing is cheaper."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attenio.cli.options import AsJson, taking
from attenio.cli.output import Progress, check_place, print_json, print_tables, progress_bar
from attenio.cli.pebble.compiling import telling_of_compiling
from attenio.cli.pebble.position import GameChoice, time_limit_seconds
from attenio.cli.pebble.rendering import game_line, solution_table, solution_to_json
from attenio.errors import InvalidInput

if TYPE_CHECKING:
    from attenio.pebbling import Game, Solution

ENGINES = ("best-first", "cp-sat", "both")
TimeLimit = Annotated[
    str, typer.Option("--time-limit", help="Stop after this long: 60, 90s, 2m. The best so far is kept.")
]


@taking(GameChoice)
def solve(
    choice: GameChoice,
    engine: Annotated[
        str,
        typer.Option(
            "--engine", help="best-first (a search), cp-sat (a solver), or both, which must agree.", metavar="NAME"
        ),
    ] = "best-first",
    time_limit: TimeLimit = "60",
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the schedule here, as JSON lines.", metavar="PATH")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The least words that any schedule moves, with a schedule that moves them.

    At the time limit, and on Ctrl-C, you get the best schedule so far and the bound proven by then.

    \b
    Examples:
      attenio pebble solve --graph attention --n 2 --d 1 --red 5 --game standard
      attenio pebble solve --graph pyramid --height 4 --red 4 --engine both
      attenio pebble solve --graph attention --n 2 --d 2 --softmax unshifted --accumulation wide --game partial --json
      attenio pebble solve --graph my.edges --red 6 --time-limit 5m --out best.jsonl
    """
    if engine not in ENGINES:
        from attenio.names import did_you_mean

        hint = did_you_mean(engine, ENGINES)
        raise InvalidInput(f"unknown engine {engine!r}; {hint}choose one of {', '.join(ENGINES)}")
    from attenio.pebbling import Ending

    if out is not None:
        check_place(out)
    game, seconds = choice.chosen_game(), time_limit_seconds(time_limit)
    solutions = []
    for name in ENGINES[:2] if engine == "both" else (engine,):
        title = f"{name}: words proven of the best known"
        with telling_of_compiling() as clock, progress_bar(title, clock) as progress:
            solutions.append(_solved(game, name, seconds, progress))
        if solutions[-1].ending is Ending.INTERRUPTED:
            break
    best = min(solutions, key=lambda solution: (solution.cost_words, -solution.lower_bound_words))
    if out is not None:
        from attenio.pebbling.schedule_files import write_schedule

        write_schedule(best.schedule, game.graph, out, game=game)
    if as_json:
        value = solution_to_json(best)
        if engine == "both":
            value["engines"] = [solution_to_json(solution, with_moves=False) for solution in solutions]
        print_json(value if out is None else {**value, "out": str(out)})
        return
    written = [] if out is None else [f"schedule of {len(best.schedule):,} moves written to {out}"]
    print_tables(game_line(game), "", solution_table(*solutions), *written)


def _solved(game: "Game", engine: str, seconds: float, progress: Progress | None) -> "Solution":
    if engine == "best-first":
        from attenio.pebbling.solving.search import search_in_stages

        return search_in_stages(game, time_limit_s=seconds, progress=progress)
    from attenio.pebbling.solving.cp_sat import cp_sat

    return cp_sat(game, time_limit_s=seconds, progress=progress)
