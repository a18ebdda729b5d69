"""A timeline as Chrome trace events, which Perfetto and chrome://tracing open; a microsecond there is a cycle here.

Steps are of category "step", and the waits between them, named by their reason, of category "idle". Counters have the
words moved so far, and how many words and products there are in a cycle.
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
_AT_ONCE = 500
WORDS_MOVED, WORDS_PER_CYCLE, PRODUCTS_PER_CYCLE = "words moved", "words per cycle", "products per cycle"


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
    counters = _Counters(ticks)

    @cache
    def about_event(engine: int, name: str, step: Step | None) -> str:
        return _compact(_event(tracks[ENGINES[engine]], name, step))[:-1]

    while some := list(islice(spans, _AT_ONCE if most == program.steps else min(_AT_ONCE, most - shown))):
        shown += sum(step is not None for *_, step in some)
        yield "".join(
            f',\n{about_event(engine, name, step)},"ts":{begin / ticks!r},"dur":{(end - begin) / ticks!r}}}'
            + counters.after(ENGINES[engine], begin, end, step)
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


class _Counters:
    """Counter events, which stand where a counted value changes; an engine's track has one span after the other."""

    def __init__(self, ticks: int) -> None:
        self._ticks, self._words, self._last = ticks, 0, dict[str, float]()

    def after(self, engine: Engine, begin: int, end: int, step: Step | None) -> str:
        """What a span adds: rates from its begin on, words at its end."""
        cycles = (end - begin) / self._ticks
        if engine is Engine.HBM:
            words = 0 if step is None else step.work.moved_words
            self._words += words
            rate = self._counted(WORDS_PER_CYCLE, begin, words / cycles if cycles else 0.0)
            return rate + (self._counted(WORDS_MOVED, end, float(self._words)) if words else "")
        if engine is Engine.PE:
            macs = 0 if step is None else step.work.macs
            return self._counted(PRODUCTS_PER_CYCLE, begin, macs / cycles if cycles else 0.0)
        return ""

    def _counted(self, name: str, at: int, value: float) -> str:
        if self._last.get(name, 0.0) == value:
            return ""
        self._last[name] = value
        at_cycle = at / self._ticks
        return f',\n{{"ph":"C","pid":0,"tid":0,"name":"{name}","ts":{at_cycle!r},"args":{{"{name}":{value!r}}}}}'


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
