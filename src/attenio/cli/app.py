"""The commands, put together."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer

from attenio import __version__
from attenio.cli.bench import bench
from attenio.cli.bounds import bounds
from attenio.cli.certify import certify
from attenio.cli.doctor import doctor
from attenio.cli.draw import draw
from attenio.cli.explore import explore
from attenio.cli.explore_design import explore_design
from attenio.cli.machines import machines
from attenio.cli.models import models
from attenio.cli.pages import pages
from attenio.cli.pebble import pebble
from attenio.cli.plan import plan
from attenio.cli.product import product
from attenio.cli.profile import profile
from attenio.cli.reorder import reorder
from attenio.cli.report import report
from attenio.cli.reproduce import reproduce
from attenio.cli.rtl import rtl
from attenio.cli.run import run
from attenio.cli.simulate import simulate
from attenio.cli.sweep import sweep
from attenio.cli.weight_gradient import weight_gradient
from attenio.errors import InvalidInput

app = typer.Typer(
    name="attenio",
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attenio {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def attenio(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """How little data attention must move on a machine, and how to get there.

    \b
    Examples:
      attenio plan --n 128K --d 64 --machine attenio-512k
      attenio bounds --model llama-3-70b --machine h100
      attenio run --n 1024 --mask causal --dataflow flash-attention-2
      attenio simulate --n 128K --d 64 --machine attenio-512k
      attenio report --out report.html
      attenio certify q.npy k.npy v.npy --tolerance 1e-2
      attenio pebble solve --graph attention --n 2 --d 1 --red 5
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for command in (
    bounds,
    plan,
    run,
    simulate,
    explore_design,
    sweep,
    reorder,
    certify,
    weight_gradient,
    pages,
    product,
    bench,
    profile,
    machines,
    models,
    report,
    reproduce,
    doctor,
    draw,
    explore,
):
    app.command(command.__name__.replace("_", "-"))(command)
app.add_typer(pebble)
app.add_typer(rtl)


@cache
def command_line() -> Any:
    """The commands as they run, made once: flags take no value, help fills its lines, an option is given once."""
    command: Any = typer.main.get_command(app)
    _tidy(command)
    return command


def _tidy(command: Any) -> None:
    paragraphs = (command.help or "").split("\n\n")
    command.help = "\n\n".join(each if each.startswith("\b") else each.replace("\n", " ") for each in paragraphs)
    offered = command.get_help_option

    def help_option(context: Any) -> Any:
        option = offered(context)
        if option is not None:
            option.metavar = ""
        return option

    command.get_help_option = help_option
    command.make_parser = _refusing_repeated(command.make_parser)
    for parameter in command.params:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    for inner in getattr(command, "commands", {}).values():
        _tidy(inner)


def _refusing_repeated(make_parser: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The parser of a command, which of an option given more than once would keep the last in silence."""

    def made(context: Any) -> Any:
        parser = make_parser(context)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> Any:
            found = parse(args)
            times = Counter(id(each) for each in found[2])
            for each in () if context.resilient_parsing else found[2]:
                once = each.param_type_name == "option" and not (each.multiple or each.count or each.is_eager)
                if once and times[id(each)] > 1:
                    name = "/".join((*each.opts[:1], *each.secondary_opts[:1]))
                    raise InvalidInput(f"{name} is given {times[id(each)]} times; keep one")
            return found

        parser.parse_args = parse_args
        return parser

    return made
