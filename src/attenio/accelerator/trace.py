"""A timeline as Chrome trace events, which Perfetto and chrome://tracing open; a microsecond there is a cycle here.

Steps are of category "step", and the waits between them, named by their reason, of category "idle".
"""

import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import Any

from attenio.accelerator.compiled import ENGINES, compiled
from attenio.accelerator.program import Program
from attenio.accelerator.step import Engine, Step
from attenio.accelerator.timeline import DRAIN, RAMP
from attenio.accelerator.tracks import spans_of
from attenio.names import checked_kind

Progress = Callable[[int, int], None]
_AT_ONCE = 1000


def trace_json(program: Program, *, most_steps: int | None = None) -> str:
    """Every step and wait of a program, or the first so many steps, a track for each engine."""
    return "".join(trace_text(program, most_steps=most_steps))


def trace_text(program: Program, *, most_steps: int | None = None, progress: Progress | None = None) -> Iterator[str]:
    """The same in pieces, for traces larger than memory. What was left out is said at the end of the file."""
    checked_kind(program, Program, "program", "a program, such as simulate(workload, machine).program")
    tracks = {engine: number for number, engine in enumerate(Engine)}
    named = [
        {"ph": "M", "pid": 0, "tid": tracks[engine], "name": "thread_name", "args": {"name": engine.value}}
        for engine in Engine
    ]
    yield '{"traceEvents":[' + ",\n".join(map(_compact, named))
    most = program.steps if most_steps is None else min(most_steps, program.steps)
    compiled_program = compiled(program)
    shown, spans, ticks = 0, spans_of(compiled_program), compiled_program.ticks_per_cycle

    @cache
    def about_event(engine: int, name: str, step: Step | None) -> str:
        return _compact(_event(tracks[ENGINES[engine]], name, step))[:-1]

    while some := list(islice(spans, _AT_ONCE if most == program.steps else min(_AT_ONCE, most - shown))):
        shown += sum(step is not None for *_, step in some)
        yield "".join(
            f',\n{about_event(engine, name, step)},"ts":{begin / ticks!r},"dur":{(end - begin) / ticks!r}}}'
            for engine, name, begin, end, step in some
        )
        if progress is not None:
            progress(shown, most)
    about = {
        "unit": "one microsecond of the trace is one cycle",
        "steps": program.steps,
        "steps_left_out": program.steps - shown,
    }
    yield '],\n"otherData":' + _compact(about) + "}\n"


def _compact(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _event(track: int, name: str, step: Step | None) -> dict[str, Any]:
    """What events of the same kind share: all but their times."""
    return {
        "ph": "X",
        "pid": 0,
        "tid": track,
        "cat": "idle" if step is None else "step",
        "name": name if step is not None or name in (RAMP, DRAIN) else f"waits for {name}",
        "args": {} if step is None else {"words": step.work.moved_words, "rows": step.rows, "keys": step.keys},
    }
