"""Tools that are used where they are installed, and missed by nobody else: Verilator and OpenSTA."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from attenio.errors import InvalidInput

# What Amaranth cannot avoid: widths that are left to the language, wires that nobody reads, modules of other names.
UNAVOIDABLE = ("WIDTH", "UNUSEDSIGNAL", "DECLFILENAME")
_PERIOD = 1000.0
_NUMBER = r"(-?[\d.]+(?:e[-+]?\d+)?)"
_ROW = re.compile(rf"^\s*{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+[-\d.e+]+\s+([A-Za-z_]\S*)$", flags=re.MULTILINE)


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
    report = _sta(
        folder,
        [
            *_design(part, _PERIOD, clocked=clocked),
            "set_output_delay 0 -clock clock [all_outputs]",
            "report_checks -path_delay max -digits 6",
        ],
    )
    return None if report is None else path_in(report)


@dataclass(frozen=True, kw_only=True)
class CellPower:
    """Watts of a cell: of what its output's changes cost if it changes once a cycle, of the clock, and what leaks."""

    changing: float
    clock: float
    leaking: float


def cell_powers(folder: Path, part: str, *, period: float, clocked: bool) -> dict[str, CellPower] | None:
    """Every cell of netlist.v at a period in the liberty's unit; None without OpenSTA.

    OpenSTA takes the activity of pins from 2020 on, and before only one for all of them. Power is linear in it, so
    that two reports, with no change and with one a cycle, have what a change of each cell costs.
    """
    script = list(_design(part, period, clocked=clocked))
    for activity in (0, 1):
        script += [f"set_power_activity -global -activity {activity} -duty 0.5", f"puts {{activity {activity}}}"]
        script.append("report_power -instances [get_cells *] -digits 9")
    report = _sta(folder, script)
    return None if report is None else powers_in(report)


def powers_in(report: str) -> dict[str, CellPower]:
    """What OpenSTA reports for every cell with no change and with one a cycle."""
    quiet, changing = (
        {name: (float(inside), float(driving), float(leaking)) for inside, driving, leaking, name in _ROW.findall(each)}
        for each in report.partition("activity 1")[::2]
    )
    if not quiet or quiet.keys() != changing.keys():
        raise InvalidInput(f"OpenSTA stopped: {_last_line(report)}")
    return {
        name: CellPower(changing=sum(changing[name][:2]) - inside - driving, clock=inside + driving, leaking=leaking)
        for name, (inside, driving, leaking) in quiet.items()
    }


def sta_version() -> str | None:
    """The version of OpenSTA, where it is installed."""
    sta = shutil.which("sta")
    if sta is None:
        return None
    return subprocess.run([sta, "-version"], capture_output=True, text=True, check=False).stdout.strip()


def counts_both_edges(version: str) -> bool:
    """Whether an OpenSTA takes, for every change, what a cell spends inside in a rise and in a fall together.

    Up to 2.0 it does, which is twice as much or more; from 2.2 of 2020 on it takes the mean, weighted by inputs.
    """
    numbers = re.findall(r"\d+", version)
    return len(numbers) > 1 and (int(numbers[0]), int(numbers[1])) < (2, 2)


def _design(part: str, period: float, *, clocked: bool) -> tuple[str, ...]:
    port = " [get_ports clk]" if clocked else ""
    return (
        "read_liberty cells.lib",
        "read_verilog netlist.v",
        f"link_design {part}",
        f"create_clock -name clock -period {period}{port}",
        # without it, what ports alone reach has no clock
        "set_input_delay 0 -clock clock [all_inputs]",
    )


def _sta(folder: Path, script: Sequence[str]) -> str | None:
    """What OpenSTA says to a script; None where it is not installed."""
    sta = shutil.which("sta")
    if sta is None:
        return None
    (folder / "sta.tcl").write_text("\n".join(script) + "\n")
    command = [sta, "-no_splash", "-exit", "sta.tcl"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    report = done.stdout + done.stderr
    mistake = re.search(r"^Error: (?:netlist\.v|sta\.tcl).*", report, flags=re.MULTILINE)
    if mistake is not None:
        raise InvalidInput(f"OpenSTA stopped: {mistake.group()}")
    return report


def path_in(report: str) -> float | None:
    """The length of the path that OpenSTA reports, what its slack leaves of the period; None where there is none."""
    slack = re.search(r"(-?[\d.]+)\s+slack", report)
    if slack is not None:
        return _PERIOD - float(slack.group(1))
    if "No paths found" in report:
        return None
    raise InvalidInput(f"OpenSTA stopped: {_last_line(report)}")


def _last_line(report: str) -> str:
    told = report.strip().splitlines()
    return told[-1] if told else "it said nothing"
