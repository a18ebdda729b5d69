"""A timeline as Chrome trace events, which Perfetto and chrome://tracing open; a microsecond there is a cycle here.

Steps are of category "step", and the waits between them, named by their reason, of category "idle".
"""

import json
from itertools import islice
from typing import Any

from attenio.accelerator.lanes import Part, lanes
from attenio.accelerator.program import Engine, Program

__all__ = ["DEFAULT_SPANS", "trace_json"]

# About 15 MB of JSON: as much as viewers open at once.
DEFAULT_SPANS = 100_000


def trace_json(program: Program, *, most_spans: int = DEFAULT_SPANS) -> str:
    """The first steps and waits of a program, a track for each engine; what was left out is said in the file."""
    tracks = {engine: number for number, engine in enumerate(Engine)}
    named = [
        {"ph": "M", "pid": 0, "tid": tracks[engine], "name": "thread_name", "args": {"name": engine.value}}
        for engine in Engine
    ]
    parts = list(islice(lanes(program), most_spans))
    shown = sum(part.step is not None for part in parts)
    about = {
        "unit": "one microsecond of the trace is one cycle",
        "steps": program.steps,
        "steps_left_out": program.steps - shown,
    }
    return json.dumps({"traceEvents": named + [_event(part, tracks) for part in parts], "otherData": about})


def _event(part: Part, tracks: dict[Engine, int]) -> dict[str, Any]:
    step = part.step
    return {
        "ph": "X",
        "pid": 0,
        "tid": tracks[part.engine],
        "cat": "idle" if step is None else "step",
        "name": part.name if step is not None or part.name in ("ramp", "drain") else f"waits for {part.name}",
        "ts": float(part.begin),
        "dur": float(part.end - part.begin),
        "args": {} if step is None else {"words": step.work.moved_words, "rows": step.rows, "keys": step.keys},
    }
