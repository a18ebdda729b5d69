"""Many programs of one shape run as each does by itself."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator import Engine, Program, Repeat, Step, periodic_timeline
from attenio.accelerator.many_timelines import ManyLoops, ManySteps, many_cycles

PROGRAMS = 3
# a chain, so that engines wait for each other as those of an accelerator do
SHAPE = (("a", Engine.HBM, ("c",)), ("b", Engine.PE, ("a", "c")), ("c", Engine.EXP, ("b",)), ("d", Engine.PE, ("c",)))
TICKS = st.lists(st.integers(0, 9), min_size=PROGRAMS, max_size=PROGRAMS)


@settings(max_examples=20, deadline=None)
@given(st.lists(TICKS, min_size=len(SHAPE), max_size=len(SHAPE)), TICKS, TICKS)
def test_every_program_takes_as_long_as_alone(ticks: list[list[int]], inner: list[int], outer: list[int]) -> None:
    steps = tuple(
        ManySteps(name=name, engine=engine, ticks=np.array(own, dtype=np.int64), after=after)
        for (name, engine, after), own in zip(SHAPE, ticks, strict=True)
    )
    rounds = ManyLoops(count=np.array(inner, dtype=np.int64), body=steps[1:])
    many = many_cycles((ManyLoops(count=np.array(outer, dtype=np.int64), body=(steps[0], rounds, steps[3])),), PROGRAMS)
    for number in range(PROGRAMS):
        alone = tuple(
            Step(name=name, engine=engine, cycles=own[number], after=after)
            for (name, engine, after), own in zip(SHAPE, ticks, strict=True)
        )
        body = (alone[0], Repeat(count=inner[number], body=alone[1:]), alone[3])
        assert periodic_timeline(Program((Repeat(count=outer[number], body=body),))).cycles == Fraction(
            int(many[number])
        )
