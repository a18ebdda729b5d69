"""The timeline of a program event by event: engines with queues, and a calendar of what ends when.

The slow and plain witness of the periodic mode. It expands the program, so it is for what fits this computer.
"""

import heapq
from collections import deque
from dataclasses import dataclass

from attenio.accelerator.compiled import ENGINES, CompiledBody, CompiledStep, compiled, flat_steps
from attenio.accelerator.program import Program
from attenio.accelerator.step import Engine
from attenio.accelerator.timeline import RAMP, Timeline
from attenio.errors import InvalidInput

# More would take minutes and gigabytes; the periodic mode gives the same answer at once.
MOST_EVENTS = 5_000_000


@dataclass(slots=True)
class _Pending:
    """A step of the calendar: how many of the steps it waits for are still to end, and who waits for it."""

    compiled: CompiledStep
    missing: int
    last: int = -1  # the name of the awaited step that ended last, the first listed of several
    ready: int = 0
    waiting: "list[_Pending] | None" = None


def event_timeline(program: Program) -> Timeline:
    """The timeline of the program, step by step in the order of time."""
    if program.steps > MOST_EVENTS:
        raise InvalidInput(
            f"the program has {program.steps:,} steps, and event by event at most {MOST_EVENTS:,} are run;"
            " use the periodic mode, which gives the same timeline, or a smaller n"
        )
    compiled_program = compiled(program)
    queues = _queues(compiled_program.body, len(compiled_program.names))
    free, started = [0] * len(ENGINES), [False] * len(ENGINES)
    busy = dict.fromkeys(ENGINES, 0)
    idle: dict[tuple[Engine, str], int] = {}
    calendar: list[tuple[int, int, _Pending]] = []
    number = end = 0
    running = [False] * len(ENGINES)

    def begin(engine: int, now: int) -> None:
        nonlocal number
        pending = queues[engine].popleft()
        if now > free[engine]:
            reason = compiled_program.causes[pending.last] if started[engine] else RAMP
            idle[ENGINES[engine], reason] = idle.get((ENGINES[engine], reason), 0) + now - free[engine]
        started[engine] = running[engine] = True
        busy[ENGINES[engine]] += pending.compiled.ticks
        number += 1
        heapq.heappush(calendar, (now + pending.compiled.ticks, number, pending))

    def begin_all(now: int) -> None:
        for engine, queue in enumerate(queues):
            if not running[engine] and queue and not queue[0].missing:
                begin(engine, now)

    begin_all(0)
    while calendar:
        now, _, ended = heapq.heappop(calendar)
        end = max(end, now)
        running[ended.compiled.engine], free[ended.compiled.engine] = False, now
        for waiting in ended.waiting or ():
            _tell(waiting, ended.compiled.name, now)
        ended.waiting = None
        begin_all(now)
    return Timeline.of_ticks(compiled_program.ticks_per_cycle, end, busy, idle)


def _tell(waiting: _Pending, name: int, now: int) -> None:
    waiting.missing -= 1
    after = waiting.compiled.after
    later = now > waiting.ready
    if later or (now == waiting.ready and waiting.last >= 0 and after.index(name) < after.index(waiting.last)):
        waiting.ready, waiting.last = now, name


def _queues(body: CompiledBody, names: int) -> list[deque[_Pending]]:
    """Every engine's steps in order, each told which earlier steps it waits for."""
    latest: list[_Pending | None] = [None] * names
    queues: list[deque[_Pending]] = [deque() for _ in ENGINES]
    for step in flat_steps(body):
        pending = _Pending(step, 0)
        for name in dict.fromkeys(step.after):
            awaited = latest[name]
            if awaited is not None:
                awaited.waiting = awaited.waiting or []
                awaited.waiting.append(pending)
                pending.missing += 1
        latest[step.name] = pending
        queues[step.engine].append(pending)
    return queues
