"""A timeline as Chrome trace events, which Perfetto and chrome://tracing open; a microsecond there is a cycle here."""

import json
from itertools import islice

from attenio.accelerator.events import spans
from attenio.accelerator.program import Engine, Program

__all__ = ["DEFAULT_SPANS", "trace_json"]

# About 15 MB of JSON: as much as viewers open at once.
DEFAULT_SPANS = 100_000


def trace_json(program: Program, *, most_spans: int = DEFAULT_SPANS) -> str:
    """The first steps of a program, a track for each engine; what was left out is said in the file."""
    tracks = {engine: number for number, engine in enumerate(Engine)}
    named = [
        {"ph": "M", "pid": 0, "tid": tracks[engine], "name": "thread_name", "args": {"name": engine.value}}
        for engine in Engine
    ]
    events = [
        {
            "ph": "X",
            "pid": 0,
            "tid": tracks[span.step.engine],
            "name": span.step.name,
            "ts": float(span.begin),
            "dur": float(span.end - span.begin),
            "args": {"words": span.step.work.moved_words, "rows": span.step.rows, "keys": span.step.keys},
        }
        for span in islice(spans(program), most_spans)
    ]
    left_out = max(0, program.steps - most_spans)
    about = {"unit": "one microsecond of the trace is one cycle", "steps": program.steps, "steps_left_out": left_out}
    return json.dumps({"traceEvents": named + events, "otherData": about})
