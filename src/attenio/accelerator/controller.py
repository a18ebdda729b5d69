"""The controller: which program a plan becomes."""

from functools import partial

from attenio.accelerator.hardware import Hardware
from attenio.accelerator.program import Node, Program
from attenio.accelerator.programs.attenio import QueryStationary, Switches, attenio_head
from attenio.accelerator.programs.flash_attention_2 import flash_attention_2_head
from attenio.accelerator.programs.flat import Flat
from attenio.accelerator.programs.key_stationary import KeyStationary
from attenio.accelerator.programs.query_tiles import every_head
from attenio.accelerator.programs.standard import Standard
from attenio.errors import InvalidInput
from attenio.masks.patterns import Pattern
from attenio.names import checked_kind
from attenio.planning.costs import problems_of
from attenio.planning.plan import Dataflow, Plan
from attenio.planning.problems import Problems
from attenio.workload import Workload, refuse_forms

SIMULATED = (
    Dataflow.STANDARD,
    Dataflow.FLAT,
    Dataflow.FLASH_ATTENTION_2,
    Dataflow.ATTENIO,
    Dataflow.STACKED_GROUPS,
    Dataflow.KEY_STATIONARY,
)
# Those that have overlaps and the parallel softmax.
SWITCHED = (Dataflow.ATTENIO, Dataflow.STACKED_GROUPS)


def program_of(plan: Plan, hardware: Hardware, switches: Switches | None = None) -> Program:
    """The program of a plan; the switches are AttenIO's and mean nothing to the others."""
    checked_kind(plan, Plan, "plan", "a Plan, such as that of plan_for(workload, machine, 'attenio')")
    workload, tiles = plan.workload, plan.tiles
    _check(plan, hardware)
    problems = problems_of(workload, plan.dataflow)
    chosen = Switches() if switches is None else switches
    d, value_dim, group = problems.d, problems.value_dim, problems.group
    match plan.dataflow:
        case Dataflow.ATTENIO:
            nest = QueryStationary(d=d, value_dim=value_dim, switches=chosen)
            a, b = tiles["query_tile"], tiles["key_tile"]
            body = every_head(problems, partial(_head_of_nest, hardware, (a, b), nest), heads=group)
        case Dataflow.STACKED_GROUPS:
            return _stacked(plan, hardware, chosen, problems)
        case Dataflow.FLASH_ATTENTION_2:
            sizes = (tiles["query_tile"], tiles["key_tile"])
            body = every_head(
                problems, lambda p: flash_attention_2_head(hardware, p, sizes, (d, value_dim)), heads=group
            )
        case Dataflow.FLAT:
            flat = Flat(
                hardware=hardware,
                d=d,
                value_dim=value_dim,
                query_tile=tiles["query_tile"],
                resident_keys=tiles.get("resident_keys"),
            )
            body = every_head(problems, flat.head, heads=group)
        case Dataflow.STANDARD:
            standard = Standard(hardware=hardware, d=d, value_dim=value_dim, tiles=tiles)
            body = every_head(problems, standard.head, heads=group)
        case Dataflow.KEY_STATIONARY:
            backward = KeyStationary(
                hardware=hardware,
                d=d,
                value_dim=value_dim,
                group=group,
                query_tile=min(tiles["query_tile"], problems.counts.most_rows),
                key_tile=min(tiles["key_tile"], problems.counts.most_keys),
            )
            body = every_head(problems, backward.head, heads=1)
        case _:
            raise InvalidInput(_no_program(plan.dataflow))
    return Program(body)


def check_has_program(dataflow: Dataflow) -> None:
    """Refuse a dataflow that the accelerator does not run, before anything is planned."""
    if dataflow not in SIMULATED:
        raise InvalidInput(_no_program(dataflow))


def _no_program(dataflow: Dataflow) -> str:
    known = ", ".join(each.value for each in SIMULATED)
    return f"{dataflow.value} has no program on the accelerator; choose one of {known}"


def _stacked(plan: Plan, hardware: Hardware, switches: Switches, problems: Problems) -> Program:
    """AttenIO's nest over the heads of a group, as many at a time as are stacked."""
    a, b, most = (plan.tiles[name] for name in ("query_tile", "key_tile", "head_tile"))
    whole, rest = divmod(problems.group, most)
    body: tuple[Node, ...] = ()
    for count, heads in ((whole, most), (1 if rest else 0, rest)):
        if count:
            nest = QueryStationary(d=problems.d, value_dim=problems.value_dim, heads=heads, switches=switches)
            body += every_head(problems, partial(_head_of_nest, hardware, (a, b), nest), heads=count)
    return Program(body)


def _head_of_nest(
    hardware: Hardware, tiles: tuple[int, int], nest: QueryStationary, pattern: Pattern
) -> tuple[Node, ...]:
    return attenio_head(hardware, pattern, *tiles, nest)


def _check(plan: Plan, hardware: Hardware) -> None:
    check_words(plan.workload, hardware)
    if plan.workload.values_in_keys:
        raise InvalidInput("the accelerator loads keys and values one after the other; set values_in_keys=False")
    refuse_forms(plan.workload, "the accelerator has no")
    hardware.cache.check_row(plan.workload.d, plan.workload.value_dim)


def check_words(workload: Workload, hardware: Hardware) -> None:
    """Refuse elements and sums of another width than the array's."""
    other_elements = workload.dtype.bytes != hardware.hbm.element_bytes
    if other_elements or workload.accumulator_words != 1:
        raise InvalidInput(
            f"the accelerator works on words of {8 * hardware.hbm.element_bytes} bits, sums included; the workload has"
            f" {workload.dtype.value}"
            + (f" and {workload.accumulator.value} sums" if workload.accumulator else "")
            + (": use fp16 or bf16" if other_elements else ": leave the accumulator out")
        )
