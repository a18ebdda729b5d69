"""``attenio rtl``: the accelerator as hardware."""

import typer

from attenio.cli.rtl.area import area
from attenio.cli.rtl.build import build
from attenio.cli.rtl.check import check
from attenio.cli.rtl.fpga import fpga

__all__ = ["rtl"]

rtl = typer.Typer(
    name="rtl",
    help="The accelerator as hardware: write Verilog, compare it with the simulator, synthesise it.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
for command in (build, check, area, fpga):
    rtl.command(command.__name__)(command)
