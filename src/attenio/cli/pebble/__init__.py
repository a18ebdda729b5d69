"""``attenio pebble``: the red-blue pebble game."""

import typer

from attenio.cli.pebble.bound import bound
from attenio.cli.pebble.check import check
from attenio.cli.pebble.graph import graph
from attenio.cli.pebble.play import play
from attenio.cli.pebble.schedule import schedule
from attenio.cli.pebble.solve import solve

__all__ = ["pebble"]

pebble = typer.Typer(
    name="pebble",
    help="The red-blue pebble game: build graphs, check, solve, bound and watch schedules.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
for command in (graph, check, solve, bound, schedule, play):
    pebble.command(command.__name__)(command)
