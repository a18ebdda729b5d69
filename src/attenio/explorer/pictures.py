"""Pictures beside a plan: what is drawn for a state, each by itself, so that the plan is there before them."""

from typing import Any

from attenio.accelerator import SIMULATED, plan_for, simulate_plan
from attenio.errors import AttenioError
from attenio.explorer.state import State
from attenio.planning import best_plan
from attenio.planning.plan import Dataflow
from attenio.quantities import show_joules, show_seconds
from attenio.report.answer import answer
from attenio.report.pictures import frames_of, roofline_svg, small_plan, words_svg
from attenio.workload import Direction, Workload


def curve(state: State) -> dict[str, Any]:
    """Words against fast memory around the one asked about."""
    if state.workload.direction is not Direction.FORWARD:
        return {"note": "This picture is of the forward pass."}
    return {"svg": words_svg(state.workload, state.machine.slowest_boundary.fast_words(state.workload.dtype))}


def frames(state: State) -> dict[str, Any]:
    """A run of the plan's dataflow on a dozen positions, event by event."""
    little = small_plan(best_plan(state.workload, state.machine, dataflow=state.dataflow))
    return {
        "title": f"{little.dataflow.value} on {little.workload.queries} queries and {little.workload.keys} keys,"
        f" {little.tiles}, {little.fast_words} words of fast memory",
        "rows": {"Q": little.workload.queries, "K": little.workload.keys, "V": little.workload.keys,
                 "O": little.workload.queries},
        "frames": [vars(frame) for frame in frames_of(little)],
    }  # fmt: skip


def whole(state: State) -> dict[str, Any]:
    """The answer of ``attenio plan --json``, the time of every resource, and every dataflow under the roofline."""
    found = answer(state.workload, state.machine, dataflow=state.dataflow)
    drawn = roofline_svg(found)
    roof = {"note": f"{state.machine.name} states no rates, so it has no roof."} if drawn is None else {"svg": drawn}
    return {
        "times": [
            {
                "resource": each.resource,
                "least": None if each.least_seconds is None else show_seconds(each.least_seconds),
                "plan": show_seconds(each.plan_seconds),
                "plan_seconds": each.plan_seconds,
                "binds": each is found.binding,
            }
            for each in found.times
        ],
        "roofline": roof,
        "json": found.to_json(),
    }


def timeline(state: State) -> dict[str, Any]:
    """The accelerator's engines over time, and what the simulation counts."""
    from attenio.report.timeline_picture import timeline_svg

    if state.machine.accelerator is None:
        return {"note": f"{state.machine.name} is no accelerator that is simulated; attenio-512k is one."}
    default = Dataflow.KEY_STATIONARY if state.workload.direction is Direction.BACKWARD else Dataflow.ATTENIO
    chosen = state.dataflow or default
    if chosen not in SIMULATED:
        return {"note": f"{chosen.value} has no program; {', '.join(each.value for each in SIMULATED)} have one."}
    done = simulate_plan(plan_for(state.workload, state.machine, chosen), state.machine)
    facts = {name: str(value) for name, value in done.facts().items() if name not in ("workload", "machine")}
    facts |= {"cycles": f"{done.whole_cycles:,}", "moved_words": f"{done.moved_words:,}"}
    facts |= {"seconds": show_seconds(done.seconds), "energy_joules": show_joules(done.energy.total_joules)}
    for share in ("pe_utilisation", "exp_utilisation", "stall_fraction"):
        facts[share] = f"{getattr(done, share):.2%}"
    return {"facts": facts, "svg": timeline_svg(done.program, title=f"{chosen.value} on {state.machine.name}")}


def pebbles(state: State) -> dict[str, Any]:
    """The chosen dataflow on three positions, replayed as a pebble game that the referee accepts."""
    from attenio.dataflows import execute
    from attenio.pebbling import check
    from attenio.pebbling.frames import film_to_json
    from attenio.pebbling.replay import replay
    from attenio.planning import best_plan_for

    forward = state.workload.direction is Direction.FORWARD
    wanted = state.dataflow if forward and state.dataflow is not None else Dataflow.ATTENIO
    little = Workload(n=3, d=1)
    try:
        plan = best_plan_for(little, 12, dataflow=wanted)
    except AttenioError:
        plan = best_plan_for(little, 12)
    played = replay(execute(plan, record=True))
    verdict = check(played.game, played.schedule)
    return {
        "title": f"{plan.dataflow.value} on 3 positions of width 1: {verdict.cost_words} words, at most"
        f" {verdict.peak_red} red at once, every move checked",
        **film_to_json(played.game, played.schedule),
    }
