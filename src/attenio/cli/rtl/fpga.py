"""``attenio rtl fpga``: a small array placed on an FPGA."""

from typing import Annotated

import typer

from attenio.cli.options import AsJson, taking
from attenio.cli.output import plain_table, print_json, print_tables, progress_bar
from attenio.cli.question import DataflowName, Question
from attenio.cli.rtl.designing import design_of


@taking(Question)
def fpga(
    question: Question,
    dataflow: DataflowName = None,
    part: Annotated[
        str, typer.Option("--part", help="Place only this part, such as mac.", metavar="NAME")
    ] = "accelerator",
    as_json: AsJson = False,
) -> None:
    """Map an accelerator, or one of its parts, to a Lattice ECP5, place and route it: LUTs, multipliers, clock.

    \b
    Examples:
      attenio rtl fpga --machine tiny.yaml --n 8 --d 4
      attenio rtl fpga --machine tiny.yaml --n 8 --d 4 --part mac --json
    """
    design = design_of(question, dataflow)
    from attenio.accelerator.rtl.fpga import placed

    with progress_bar("placing and routing"):
        found = placed(design, part)
    if as_json:
        print_json({"part": part, "device": "ECP5 85k", **vars(found)})
        return
    table = plain_table("part", ("LUTs", "right"), ("registers", "right"), ("multipliers", "right"), ("MHz", "right"))
    clock = "-" if found.clock_mhz is None else f"{found.clock_mhz:.1f}"
    table.add_row(part, f"{found.luts:,}", f"{found.registers:,}", f"{found.multipliers:,}", clock)
    print_tables(f"{design.machine.name} on an ECP5 85k", table)
