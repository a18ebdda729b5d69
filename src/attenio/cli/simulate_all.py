"""``attenio simulate --dataflow all``: every dataflow that has a program, side by side."""

from typing import TYPE_CHECKING, Any

from attenio.cli.output import plain_table, print_json, print_tables
from attenio.errors import AttenioError, DoesNotFit, InvalidInput
from attenio.quantities import show_figures, show_joules, show_seconds

if TYPE_CHECKING:
    from rich.table import Table

    from attenio.accelerator import Simulation
    from attenio.machine import Machine
    from attenio.planning import Dataflow
    from attenio.workload import Workload


def simulate_all(workload: "Workload", machine: "Machine", *, by_events: bool, as_json: bool) -> None:
    """Run every dataflow of the workload's direction, the fastest first; what does not fit says why."""
    from attenio.accelerator import SIMULATED

    done: list[Simulation] = []
    refused: list[tuple[Dataflow, AttenioError]] = []
    for dataflow in SIMULATED:
        if dataflow.direction is workload.direction:
            try:
                done.append(_simulated(workload, machine, dataflow, by_events=by_events))
            except (DoesNotFit, InvalidInput) as problem:
                refused.append((dataflow, problem))
    if not done:
        if refused:
            raise refused[0][1]
        way = workload.direction.value
        raise InvalidInput(f"no dataflow of direction {way} has a program on the accelerator; use forward or backward")
    done.sort(key=lambda each: each.cycles)
    if as_json:
        print_json(
            {
                **{name: done[0].to_json()[name] for name in ("workload", "machine")},
                "dataflows": [each.to_json() for each in done],
                "refused": {dataflow.value: str(problem) for dataflow, problem in refused},
            }
        )
        return
    lines = [f"{dataflow.value}: {problem}" for dataflow, problem in refused]
    print_tables(f"{workload} on {machine.name}", _table(done), *lines)


def _simulated(workload: "Workload", machine: "Machine", dataflow: "Dataflow", **options: Any) -> "Simulation":
    from attenio.accelerator import plan_for, simulate_plan

    return simulate_plan(plan_for(workload, machine, dataflow), machine, **options)


def _table(done: "list[Simulation]") -> "Table":
    numbers = ("cycles", "against best", "time", "PE busy", "stalls", "moved (words)", "energy")
    table = plain_table("dataflow", *((name, "right") for name in numbers))
    for each in done:
        table.add_row(
            each.plan.dataflow.value,
            f"{each.whole_cycles:,}",
            f"{show_figures(float(each.cycles / done[0].cycles))}×" if done[0].cycles else "-",
            show_seconds(each.seconds),
            f"{each.pe_utilisation:.1%}",
            f"{each.stall_fraction:.1%}",
            f"{each.moved_words:,}",
            show_joules(each.energy.total_joules),
        )
    return table
