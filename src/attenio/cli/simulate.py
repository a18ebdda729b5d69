"""``attenio simulate``: a plan run on an accelerator, in cycles and joules."""

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attenio.cli.output import check_place, plain_table, print_json, print_tables
from attenio.cli.question import DEFAULT_N, AsJson, DataflowName, Question, asking, dataflow_named
from attenio.errors import InvalidInput
from attenio.quantities import show_seconds

if TYPE_CHECKING:
    from rich.table import Table

    from attenio.accelerator import Simulation

__all__ = ["simulate"]

_OVERLAPS = {"values": "overlap_values", "keys": "overlap_keys", "queries": "overlap_queries"}


def _switch(help: str) -> Any:
    return typer.Option(help=help, metavar="LIST", rich_help_panel="AttenIO", show_default=False)


@asking
def simulate(
    question: Question,
    dataflow: DataflowName = None,
    overlaps: Annotated[
        str | None, _switch("Which loads overlap computation: any of values,keys,queries, or none (default: all).")
    ] = None,
    softmax: Annotated[
        str | None, _switch("parallel (pipelined maps over rows, the default) or rows (reductions along rows).")
    ] = None,
    events: Annotated[
        bool, typer.Option("--events", help="Event by event; the same answer, slower.", rich_help_panel="AttenIO")
    ] = False,
    compute: Annotated[
        str | None,
        _switch("At small n, compute random numbers too, with exponentials rounded, linear or from a table."),
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write a timeline that Perfetto opens, as JSON.", metavar="PATH")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a dataflow on the accelerator of a machine: cycles, utilisation, stalls, words moved, energy.

    Tiles are those of the dataflow's paper, or the planner's best where these do not fit. Every idle cycle of every
    engine has a reason.

    \b
    Examples:
      attenio simulate --dataflow attenio --n 131072 --d 64 --machine attenio-512k --json
      attenio simulate --dataflow flash-attention-2 --n 32K --d 128 --mask causal
      attenio simulate --n 8K --overlaps none --softmax rows
      attenio simulate --n 4K --d 64 --trace timeline.json
      attenio simulate --n 256 --compute table
    """
    from attenio.accelerator import plan_for, simulate_plan
    from attenio.planning import Dataflow
    from attenio.workload import Direction

    if trace is not None:
        check_place(trace)
    switches = _switches(overlaps, softmax)
    workload, machine = question.workload(DEFAULT_N), question.chosen_machine()
    default = Dataflow.KEY_STATIONARY if workload.direction is Direction.BACKWARD else Dataflow.ATTENIO
    chosen = dataflow_named(dataflow) or default
    done = simulate_plan(plan_for(workload, machine, chosen), machine, switches=switches, by_events=events)
    error = None if compute is None else _error(done, compute)
    if trace is not None:
        from attenio.accelerator import trace_json
        from attenio.files import write_atomically

        write_atomically(trace, trace_json(done.program))
    if as_json:
        print_json({**done.to_json(), **({} if error is None else {"max_abs_error": error})})
        return
    lines = [] if error is None else [f"Computed in fp16, {compute} exponentials: off by {error:.2g} at most"]
    lines += [] if trace is None else [f"The timeline is in {trace}; open it with https://ui.perfetto.dev"]
    print_tables(f"{workload} on {machine.name}", _summary(done), _idle(done), *lines)


def _error(done: "Simulation", name: str) -> float:
    """The largest error of the same program on random numbers, with this approximation of exponentials."""
    import numpy as np

    from attenio.accelerator import ExpApproximation, run_functionally

    known = [kind.value for kind in ExpApproximation]
    if name.strip().lower() not in known:
        raise InvalidInput(f"unknown exponentials {name!r}; choose one of {', '.join(known)}")
    workload, random = done.plan.workload, np.random.default_rng(0)
    shapes = ((workload.queries, workload.d), (workload.keys, workload.d), (workload.keys, workload.value_dim))
    q, k, v = (random.standard_normal(shape) for shape in shapes)
    kind = ExpApproximation(name.strip().lower())
    return run_functionally(
        done.plan, done.machine, (q, k, v), approximation=kind, switches=done.switches
    ).max_abs_error


def _switches(overlaps: str | None, softmax: str | None) -> Any:
    from attenio.accelerator import Switches

    wanted = set(_OVERLAPS) if overlaps is None else set(filter(None, overlaps.replace(" ", "").lower().split(",")))
    if "all" in wanted or "none" in wanted:
        if len(wanted) > 1:
            raise InvalidInput(f"overlaps is {overlaps!r}; all and none stand alone")
        wanted = set(_OVERLAPS) if "all" in wanted else set()
    unknown = sorted(wanted - set(_OVERLAPS))
    if unknown:
        raise InvalidInput(f"unknown overlap {unknown[0]!r}; choose any of {', '.join(_OVERLAPS)}, or all or none")
    pattern = "parallel" if softmax is None else softmax.strip().lower()
    if pattern not in ("parallel", "rows"):
        raise InvalidInput(f"unknown softmax {softmax!r}; choose parallel or rows")
    return Switches(
        **{field: name in wanted for name, field in _OVERLAPS.items()}, parallel_softmax=pattern == "parallel"
    )


def _summary(done: "Simulation") -> "Table":
    table = plain_table("", ("value", "right"), "what it is")
    joules = done.energy.total_joules
    rows = (
        ("dataflow", done.plan.dataflow.value, str(done.plan.tiles)),
        ("cycles", f"{ceil(done.cycles):,}", f"{show_seconds(done.seconds)} at {done.hardware.clock_hz / 1e9:g} GHz"),
        ("PE array busy", f"{done.pe_utilisation:.2%}", f"{done.mac_utilisation:.2%} of all products it could do"),
        ("EXP unit busy", f"{done.exp_utilisation:.2%}", "of all cycles"),
        ("memory stalls", f"{done.stall_fraction:.3%}", "of all cycles the array waits for memory"),
        ("moved (words)", f"{done.moved_words:,}", "both directions; as planned"),
        ("energy (J)", f"{joules:.4g}", f"{done.energy.chip_joules:.4g} J on chip, the rest in HBM"),
    )
    for row in rows:
        table.add_row(*row)
    return table


def _idle(done: "Simulation") -> "Table":
    table = plain_table("engine", "waits for", ("idle (cycles)", "right"), ("of all", "right"))
    for idle in done.timeline.idle:
        share = float(idle.cycles / done.cycles) if done.cycles else 0.0
        table.add_row(idle.engine.value, idle.reason, f"{float(idle.cycles):,.0f}", f"{share:.2%}")
    return table
