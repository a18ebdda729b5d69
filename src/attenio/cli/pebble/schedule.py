"""``attenio pebble schedule``: a good schedule for a graph too large to solve."""

from pathlib import Path
from typing import Annotated

import typer

from attenio.cli.options import AsJson, taking
from attenio.cli.output import check_place, print_json, print_tables, progress_bar
from attenio.cli.pebble.compiling import compile_for_schedules, telling_of_compiling
from attenio.cli.pebble.position import GameChoice, time_limit_seconds
from attenio.cli.pebble.rendering import game_line, solution_table, solution_to_json
from attenio.cli.pebble.solve import TimeLimit
from attenio.quantities import parse_seed

# More moves than this are asked for as a file, not as part of one JSON value.
_MOST_MOVES = 100_000


@taking(GameChoice)
def schedule(
    choice: GameChoice,
    time_limit: TimeLimit = "60",
    seed: Annotated[str, typer.Option("--seed", help="Seed of the search.", metavar="COUNT")] = "0",
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the schedule here, as JSON lines.", metavar="PATH")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """A good schedule for a graph of up to a million vertices and more.

    \b
    Examples:
      attenio pebble schedule --graph product --n 16 --red 64
      attenio pebble schedule --graph attention --n 64 --d 8 --red 512 --out schedule.jsonl
      attenio pebble schedule --graph stencil --points 1000 --steps 1000 --red 200 --json
    """
    from attenio.pebbling.scheduling import find_schedule

    if out is not None:
        check_place(out)
    sown = parse_seed(seed)
    game = choice.chosen_game()
    with telling_of_compiling():
        compile_for_schedules()
    with progress_bar("searching for an order") as progress:
        solution = find_schedule(game, time_limit_s=time_limit_seconds(time_limit), seed=sown, progress=progress)
    if out is not None:
        from attenio.pebbling.schedule_files import write_schedule

        write_schedule(solution.schedule, game.graph, out, game=game)
    if as_json:
        value = {**solution_to_json(solution, with_moves=len(solution.schedule) <= _MOST_MOVES), "seed": sown}
        print_json(value if out is None else {**value, "out": str(out)})
        return
    written = [] if out is None else [f"schedule of {len(solution.schedule):,} moves written to {out}"]
    print_tables(game_line(game), "", solution_table(solution), *written)
