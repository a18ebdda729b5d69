"""Every engine's track of a timeline: the steps that it runs and, between them, what it waits for.

>>> from attenio.accelerator.program import Program, Step
>>> load = Step(name="load K", engine=Engine.HBM, cycles=4, cause="K")
>>> use = Step(name="scores", engine=Engine.PE, cycles=3, after=("load K",))
>>> for span in tracks(Program((load, use))):
...     print(span.engine.value, span.name, span.begin, span.end)
HBM load K 0 4
PE array ramp 0 4
PE array scores 4 7
HBM drain 4 7
EXP unit drain 0 7
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from attenio.accelerator.compiled import ENGINES, CompiledProgram, compiled, flat_steps
from attenio.accelerator.program import Program
from attenio.accelerator.step import Engine, Step
from attenio.accelerator.timeline import DRAIN, RAMP


@dataclass(frozen=True, kw_only=True)
class Span:
    """Cycles of one engine's track: a step, or where there is none a wait and its reason."""

    engine: Engine
    name: str
    begin: Fraction
    end: Fraction
    step: Step | None


def tracks(program: Program) -> Iterator[Span]:
    """Steps and waits in the order of the program, drawn one by one; drains come last."""
    compiled_program = compiled(program)
    ticks = compiled_program.ticks_per_cycle
    for engine, name, begin, end, step in spans_of(compiled_program):
        yield Span(engine=ENGINES[engine], name=name, begin=Fraction(begin, ticks), end=Fraction(end, ticks), step=step)


def spans(program: Program) -> Iterator[Span]:
    """Every step with its begin and end, in the order of the program, drawn one by one."""
    return (span for span in tracks(program) if span.step is not None)


def spans_of(compiled_program: CompiledProgram) -> Iterator[tuple[int, str, int, int, Step | None]]:
    """The same in ticks, with the engine's number: plain integers, for programs of a million steps."""
    free, done, started = [0] * len(ENGINES), [0] * len(compiled_program.names), [False] * len(ENGINES)
    for node in flat_steps(compiled_program.body):
        engine, begin, reason = node.engine, free[node.engine], ""
        for name in node.after:
            if done[name] > begin:
                begin, reason = done[name], compiled_program.causes[name]
        if begin > free[engine]:
            yield engine, reason if started[engine] else RAMP, free[engine], begin, None
        started[engine] = True
        free[engine] = done[node.name] = begin + node.ticks
        yield engine, node.step.name, begin, free[engine], node.step
    end = max(free)
    for engine in range(len(ENGINES)):
        if free[engine] < end:
            yield engine, DRAIN, free[engine], end, None
