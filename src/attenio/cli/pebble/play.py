"""``attenio pebble play``: step through a schedule and watch the pebbles."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attenio.cli.options import AsJson, taking
from attenio.cli.output import check_place, plain_table, print_json, print_tables, progress_bar
from attenio.cli.pebble.check import game_of_schedule
from attenio.cli.pebble.compiling import telling_of_compiling
from attenio.cli.pebble.position import GameChoice, time_limit_seconds
from attenio.cli.pebble.rendering import game_line
from attenio.cli.pebble.solve import TimeLimit

if TYPE_CHECKING:
    from attenio.pebbling import Game, Schedule

# Larger graphs get a good schedule instead of the best one.
_SOLVED = 64


@taking(GameChoice)
def play(
    choice: GameChoice,
    schedule: Annotated[
        Path | None, typer.Argument(help="A schedule as JSON lines; without one, the best found.", metavar="SCHEDULE")
    ] = None,
    frames: Annotated[
        Path | None,
        typer.Option("--frames", help="Write every frame to this file, as JSON, and do not play.", metavar="PATH"),
    ] = None,
    time_limit: TimeLimit = "10",
    as_json: AsJson = False,
) -> None:
    """Step through a schedule: space or → for the next move, b or ← back, digits and Enter to jump, q to leave.

    Where no one is watching, the moves are printed one a line.

    \b
    Examples:
      attenio pebble play --graph attention --n 2 --d 1 --red 5
      attenio pebble play best.jsonl --graph pyramid --height 3 --frames frames.json
    """
    from attenio.pebbling.frames import film_to_json
    from attenio.pebbling.frames import frames as filmed

    if frames is not None:
        check_place(frames)
    game, moves = _game_and_moves(choice, schedule, time_limit)
    if frames is not None:
        import json

        from attenio.files import write_atomically

        write_atomically(frames, json.dumps(film_to_json(game, moves), allow_nan=False) + "\n")
    if as_json:
        print_json(film_to_json(game, moves))
    elif frames is not None:
        print_tables(f"{len(moves) + 1:,} frames written to {frames}")
    elif sys.stdin.isatty() and sys.stdout.isatty():
        from attenio.cli.pebble.player import Player

        Player(game, list(filmed(game, moves))).run()
    else:
        table = plain_table(("move", "right"), "what", ("red (words)", "right"), ("moved (words)", "right"))
        for frame in filmed(game, moves):
            table.add_row(f"{frame.step:,}", frame.move, f"{frame.red_words:,}", f"{frame.cost_words:,}")
        print_tables(game_line(game), "", table)


def _game_and_moves(choice: GameChoice, path: Path | None, time_limit: str) -> tuple["Game", "Schedule"]:
    if path is not None:
        from attenio.pebbling.schedule_files import read_schedule

        game = game_of_schedule(choice, path)
        return game, read_schedule(path, game.graph)
    from attenio.pebbling.solving.search.in_stages import search_in_stages

    game, seconds = choice.chosen_game(), time_limit_seconds(time_limit)
    if len(game.graph) <= _SOLVED:
        with (
            telling_of_compiling() as clock,
            progress_bar("best-first: words proven of the best known", clock) as progress,
        ):
            return game, search_in_stages(game, time_limit_s=seconds, progress=progress).schedule
    from attenio.pebbling.scheduling import find_schedule

    with telling_of_compiling() as clock, progress_bar("searching for an order", clock) as progress:
        return game, find_schedule(game, time_limit_s=seconds, progress=progress).schedule
