"""What the page is told: for each request a JSON text, with the same numbers as the command line."""

import json
import shlex
from collections.abc import Callable
from typing import Any

from attenio.catalogue import machines, models
from attenio.errors import AttenioError, InvalidInput
from attenio.explorer.state import State
from attenio.planning.plan import Dataflow, Plan
from attenio.quantities import bytes_of, show_bytes
from attenio.report.answer import Answer, answer_at_slowest
from attenio.report.notation import candidate_rows, show_ratio
from attenio.report.pictures import tiles_svg
from attenio.workload import Direction, Workload

_OPTIONS = {"fast": "fast-bytes"}


def respond(request: str) -> str:
    """Answer one request, ``{"view": ..., "address": ...}``; a mistake is an answer too, with what is wrong."""
    try:
        asked = json.loads(request)
        view = VIEWS.get(asked["view"]) if isinstance(asked, dict) else None
        if view is None:
            raise InvalidInput(f"a request names one of {', '.join(VIEWS)} as its view")
        return json.dumps(view(str(asked.get("address", ""))), allow_nan=False)
    except (AttenioError, KeyError, json.JSONDecodeError) as problem:
        return json.dumps({"error": str(problem) or type(problem).__name__})
    except (MemoryError, OverflowError, RecursionError):
        return json.dumps({"error": "this is too large for a page; ask the command line"})


def prepare() -> None:
    """Load what the first plan of a rare mask would otherwise wait for, while there is nothing else to do."""
    import numpy.random  # noqa: F401 - blocks at random; NumPy loads it when it is first asked for


def _choices(_address: str) -> dict[str, Any]:
    return {
        "machines": [{"name": each.name, "what": each.description} for each in machines()],
        "models": [each.name for each in models()],
        "dataflows": {way.value: [each.value for each in Dataflow.towards(way)] for way in Direction},
    }


def _plan(address: str) -> dict[str, Any]:
    """What is shown while a slider moves; plans over all levels of a machine take longer and are in ``whole``."""
    state = State.of(address)
    found = answer_at_slowest(state.workload, state.machine, dataflow=state.dataflow)
    return {
        "title": f"{state.workload} on {state.machine.name}",
        "bound": {**_words(found.bound.words, state.workload), **_theorem(found.bound)},
        "plan": {**_words(found.plan.moved_words, state.workload), **_tiles(found.plan)},
        "gap": found.gap,
        "gap_text": show_ratio(found.gap),
        "dataflows": [_row(candidate, rule, found) for candidate, rule in candidate_rows(found)],
        "tiles_svg": tiles_svg(found.plan),
        "python": _python(state),
        "command": _command(state),
        "has_accelerator": state.machine.accelerator is not None,
    }


def _words(words: int, workload: Workload) -> dict[str, Any]:
    return {"words": words, "bytes": show_bytes(bytes_of(words, element_bytes=workload.dtype.bytes))}


def _theorem(bound: Any) -> dict[str, str]:
    return {"theorem": bound.theorem, "strength": bound.strength.value, "covers": bound.covers}


def _tiles(plan: Plan) -> dict[str, Any]:
    return {"dataflow": plan.dataflow.value, "tiles": str(plan.tiles), "peak_words": plan.peak_words}


def _row(candidate: Any, rule: str, found: Answer) -> dict[str, Any]:
    plan = candidate.plan
    return {
        "dataflow": candidate.dataflow.value,
        "rule": rule,
        "tiles": "" if candidate.tiles is None else str(candidate.tiles),
        "words": None if plan is None else plan.moved_words,
        "over": None if plan is None else show_ratio(plan.moved_words / found.bound.words),
        "reason": candidate.reason,
        "chosen": plan is not None and plan == found.plan,
    }


def _python(state: State) -> str:
    """Lines that give the same plan."""
    given = state.given
    if "model" in given:
        changes = [f"{name}={given[name]!r}" for name in ("mask", "dtype", "direction") if name in given]
        sizes = [f"n={state.workload.keys}", f"batch={state.workload.batch}"]
        sizes += ["decode=True"] if state.workload.is_decode else []
        made = [
            "from dataclasses import replace",
            "from attenio.catalogue import model_named",
            f"workload = model_named({given['model']!r}).workload({', '.join(sizes)})",
            *([f"workload = replace(workload, {', '.join(changes)})"] if changes else []),
        ]
    else:
        w = state.workload
        sizes = [f"queries={w.queries}, keys={w.keys}, d={w.d}, value_dim={w.value_dim}, heads={w.heads}"]
        sizes += [f"kv_heads={w.kv_heads}, batch={w.batch}, mask={str(w.mask)!r}, dtype={w.dtype.value!r}"]
        sizes += [f"direction={w.direction.value!r}"]
        made = [f"workload = Workload({', '.join(sizes)})"]
    machine = f"Machine.with_fast_bytes({given['fast']!r})" if "fast" in given else repr(state.machine.name)
    dataflow = "" if state.dataflow is None else f", dataflow={state.dataflow.value!r}"
    return "\n".join(
        ["from attenio import Machine, Workload, best_plan", *made, f"plan = best_plan(workload, {machine}{dataflow})",
         "print(plan)"]
    )  # fmt: skip


def _command(state: State) -> str:
    """The command that prints the same plan."""
    said = []
    model = "model" in state.given
    for name, value in state.given.items():
        if model and name in ("d", "value_dim", "heads", "kv_heads"):
            continue
        option = f"--{_OPTIONS.get(name, name).replace('_', '-')}"
        said.append(option if name == "decode" else f"{option} {shlex.quote(value)}")
    return " ".join(["attenio plan", *said])


def _picture(name: str) -> Callable[[str], dict[str, Any]]:
    """A view of ``explorer.pictures``, which is loaded when it is first asked for: plans do not wait for it."""

    def view(address: str) -> dict[str, Any]:
        from attenio.explorer import pictures

        found: dict[str, Any] = getattr(pictures, name)(State.of(address))
        return found

    return view


VIEWS: dict[str, Callable[[str], dict[str, Any]]] = {
    "choices": _choices,
    "plan": _plan,
    **{name: _picture(name) for name in ("whole", "curve", "frames", "timeline", "pebbles")},
}
