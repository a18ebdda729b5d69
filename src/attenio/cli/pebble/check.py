"""``attenio pebble check``: the referee."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attenio.cli.options import AsJson, taking
from attenio.cli.output import plain_table, print_json, print_tables
from attenio.cli.pebble.position import GameChoice
from attenio.cli.pebble.rendering import game_line, game_to_json
from attenio.plain_values import plain_fields

if TYPE_CHECKING:
    from attenio.pebbling import Game, Verdict

# The exit status of a schedule that breaks the rules: an answer, not a mistake in the question.
ILLEGAL = 1


@taking(GameChoice)
def check(
    choice: GameChoice,
    schedule: Annotated[Path, typer.Argument(help="A schedule as JSON lines.", metavar="SCHEDULE")],
    as_json: AsJson = False,
) -> None:
    """Play a schedule move by move; the first illegal move is named with its reason, and the exit status is then 1.

    The rules and the number of red pebbles are the schedule file's own unless options say otherwise.

    \b
    Examples:
      attenio pebble check best.jsonl --graph attention --n 2 --d 1
      attenio pebble check best.jsonl --graph my.dot --red 5 --game one-shot --json
    """
    from attenio.pebbling import check as judged
    from attenio.pebbling.schedule_files import read_schedule

    game = game_of_schedule(choice, schedule)
    verdict = judged(game, read_schedule(schedule, game.graph))
    complaint = verdict.complaint
    if as_json:
        print_json(
            {
                **game_to_json(game),
                "legal": verdict.legal,
                "cost": verdict.cost_words,
                **plain_fields(verdict, "loaded_words", "stored_words", "computations", "peak_red", "moves"),
                "complaint": None if complaint is None else plain_fields(complaint, "step", "move", "reason"),
            }
        )
    else:
        table = plain_table("legal" if verdict.legal else "ILLEGAL", ("", "right"))
        table.add_row("moves", f"{verdict.moves:,}")
        table.add_row("cost (words)", f"{verdict.cost_words:,}")
        table.add_row("loaded (words)", f"{verdict.loaded_words:,}")
        table.add_row("stored (words)", f"{verdict.stored_words:,}")
        table.add_row("computations", f"{verdict.computations:,}")
        table.add_row("most red at once (words)", f"{verdict.peak_red:,}")
        print_tables(game_line(game), "", table, *_told(verdict))
    if not verdict.legal:
        raise typer.Exit(ILLEGAL)


def _told(verdict: "Verdict") -> list[str]:
    """What is wrong with the schedule, if anything."""
    if verdict.complaint is None:
        return []
    if verdict.moves == 0 and not verdict.complaint.move:
        return ["", f"the file has no moves: {verdict.complaint.reason}; check that it was written completely"]
    return ["", str(verdict.complaint)]


def game_of_schedule(choice: GameChoice, schedule: Path) -> "Game":
    """The game that options ask for, and what they leave open as the schedule file says."""
    from attenio.pebbling.schedule_files import ScheduleHeader, read_schedule_header

    header = read_schedule_header(schedule) or ScheduleHeader()
    red = header.red if choice.red is None else choice.red
    return replace(
        choice,
        red=None if red is None else str(red),
        game=choice.game or (None if header.game is None else header.game.value),
        sliding=choice.sliding or bool(header.sliding),
    ).chosen_game()
