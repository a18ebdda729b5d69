"""Tools that are used where they are installed, and missed by nobody else: Verilator lints, OpenSTA times."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from attenio.errors import InvalidInput

# What Amaranth cannot avoid: widths that are left to the language, wires that nobody reads, modules of other names.
UNAVOIDABLE = ("WIDTH", "UNUSEDSIGNAL", "DECLFILENAME")
_PERIOD = 1000.0


def lint(folder: Path, files: Sequence[str], top: str) -> list[str] | None:
    """What Verilator warns about, by default, in files of a folder; None where it is not installed."""
    verilator = shutil.which("verilator")
    if verilator is None:
        return None
    silenced = [f"-Wno-{name}" for name in UNAVOIDABLE]
    command = [verilator, "--lint-only", *silenced, "--top-module", top, *files]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return [line for line in done.stderr.splitlines() if line.startswith(("%Warning", "%Error"))]


def critical_path(folder: Path, part: str, *, clocked: bool) -> float | None:
    """The longest path of netlist.v with the cells of cells.lib, in the liberty's unit; None without it or OpenSTA."""
    sta = shutil.which("sta")
    if sta is None:
        return None
    port = " [get_ports clk]" if clocked else ""
    script = [
        "read_liberty cells.lib",
        "read_verilog netlist.v",
        f"link_design {part}",
        f"create_clock -name clock -period {_PERIOD}{port}",
        "set_input_delay 0 -clock clock [all_inputs]",
        "set_output_delay 0 -clock clock [all_outputs]",
        "report_checks -path_delay max -digits 6",
    ]
    (folder / "paths.tcl").write_text("\n".join(script) + "\n")
    command = [sta, "-no_splash", "-exit", "paths.tcl"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return path_in(done.stdout + done.stderr)


def path_in(report: str) -> float | None:
    """The length of the path that OpenSTA reports, what its slack leaves of the period; None where there is none."""
    slack = re.search(r"(-?[\d.]+)\s+slack", report)
    if slack is not None:
        return _PERIOD - float(slack.group(1))
    if "No paths found" in report:
        return None
    told = report.strip().splitlines()
    raise InvalidInput(f"OpenSTA stopped: {told[-1] if told else 'it said nothing'}")
