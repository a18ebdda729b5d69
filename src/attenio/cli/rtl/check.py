"""``attenio rtl check``: the hardware beside the simulator, step by step and word by word."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from attenio.cli.options import AsJson, option_field, taking
from attenio.cli.output import check_place, plain_table, print_json, print_tables, progress_bar
from attenio.cli.question import DataflowName, Question
from attenio.cli.rtl.designing import design_of
from attenio.errors import InvalidInput
from attenio.names import member_named
from attenio.quantities import parse_count, show_count

if TYPE_CHECKING:
    from attenio.accelerator.rtl.check import Checked


@dataclass(frozen=True, kw_only=True)
class HowChecked:
    """How the hardware is run, as typed."""

    dataflow: DataflowName = None
    runner: str = option_field(
        "cxxrtl (compiled C++), verilator (where it is installed) or pysim (for the smallest arrays).",
        "NAME",
        panel=None,
        default="cxxrtl",
    )
    optimise: str = option_field("Level of the C++ compiler's optimisation, 0 to 3.", "LEVEL", panel=None, default="0")
    seed: str = option_field("Seed of the random inputs.", "NUMBER", panel=None, default="0")
    vcd: Path | None = option_field("Write the waves of all signals.", "PATH", panel=None)
    trace: Path | None = option_field("Write the hardware's timeline, which Perfetto opens.", "PATH", panel=None)


@taking(Question, HowChecked)
def check(question: Question, how: HowChecked, as_json: AsJson = False) -> None:
    """Build the accelerator for a workload, run it, and compare: every step's times, every word.

    The exit code is 1 if anything differs; the first difference is shown side by side.

    \b
    Examples:
      attenio rtl check --machine tiny.yaml --n 32 --d 8
      attenio rtl check --machine tiny.yaml --n 32 --d 8 --mask causal --json
      attenio rtl check --machine tiny.yaml --n 8 --d 4 --vcd waves.vcd --trace timeline.json
    """
    for path in filter(None, (how.vcd, how.trace)):
        check_place(path)
    level = parse_count(how.optimise, "optimise")
    if not 0 <= level <= 3:
        raise InvalidInput(f"optimise is {level}; compilers know 0 to 3")
    design = design_of(question, how.dataflow)
    from attenio.accelerator.rtl.check import Runner
    from attenio.accelerator.rtl.check import check as checked

    runner = member_named(Runner, how.runner, "runner")
    with progress_bar("building and running the accelerator"):
        found = checked(design, runner=runner, seed=parse_count(how.seed, "seed"), optimise=level, vcd=how.vcd)
    if how.trace is not None:
        _write_trace(how.trace, found)
    if as_json:
        print_json(found.to_json())
    else:
        print_tables(f"{design.plan.workload} on {design.machine.name}", _table(found))
    if not (found.steps_equal and found.words_equal):
        raise typer.Exit(1)


def _table(found: "Checked") -> Any:
    table = plain_table("", ("RTL beside the simulator", "right"), "")
    table.add_row("steps", f"{found.steps:,}", "all equal" if found.steps_equal else _step_line(found))
    table.add_row("words", f"{found.words:,}", "all equal" if found.words_equal else _word_line(found))
    table.add_row("cycles", f"{found.cycles:,}", f"simulated {found.simulated_cycles:,}")
    return table


def _step_line(found: "Checked") -> str:
    if found.first_step is None:
        return "equal, but the end differs"
    number, ours, theirs = found.first_step

    def shown(step: Any) -> str:
        return "no step" if step is None else f"{step.engine}: {step.name} {step.begin:,} to {step.end:,}"

    return f"first difference at step {number:,}: RTL {shown(ours)}; simulator {shown(theirs)}"


def _word_line(found: "Checked") -> str:
    first = found.first_word
    if first is None:
        return "a row sum came late"
    if "row" not in first:
        return f"{show_count(first['rows'], 'row')} were stored, {first['rows_wanted']:,} are wanted"
    at = f"row {first['row']:,}, column {first['column']:,}"
    ours, theirs = first["rtl"], first["functional"]
    one, other = (f"{word['bits']} ({word['value']:g})" for word in (ours, theirs))
    return f"{first['different']:,} differ; first at {at}: RTL {one}, functional model {other}"


def _write_trace(path: Path, found: "Checked") -> None:
    from attenio.accelerator.step import Engine
    from attenio.files import write_atomically

    tracks = {engine.value: number for number, engine in enumerate(Engine)}
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "tid": number, "name": "thread_name", "args": {"name": f"{engine} (RTL)"}}
        for engine, number in tracks.items()
    ]
    for step in found.timeline:
        about = {"ph": "X", "pid": 0, "tid": tracks[step.engine], "cat": "step", "name": step.name}
        events.append({**about, "ts": step.begin, "dur": step.end - step.begin})
    write_atomically(path, json.dumps({"traceEvents": events}))
