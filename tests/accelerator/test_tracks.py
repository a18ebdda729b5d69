"""Lanes leave no cycle of any engine without a name."""

from collections import Counter
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator import Engine, Program, Repeat, Step, periodic_timeline
from attenio.accelerator.tracks import tracks

NAMES = list("abcd")
STEPS = st.builds(
    lambda name, engine, cycles, after: Step(name=name, engine=engine, cycles=cycles, after=tuple(after)),
    st.sampled_from(NAMES),
    st.sampled_from(list(Engine)),
    st.fractions(0, 5, max_denominator=6),
    st.lists(st.sampled_from(NAMES), max_size=3),
)
LOOPS = st.builds(
    lambda count, body: Repeat(count=count, body=tuple(body)), st.integers(0, 9), st.lists(STEPS, max_size=5)
)
PROGRAMS = st.builds(lambda body: Program(tuple(body)), st.lists(st.one_of(STEPS, LOOPS), max_size=5))


@settings(max_examples=20, deadline=None)
@given(PROGRAMS)
def test_waits_are_those_of_the_timeline_reason_by_reason(program: Program) -> None:
    waits: Counter[tuple[Engine, str]] = Counter()
    for part in tracks(program):
        if part.step is None:
            waits[part.engine, part.name] += part.end - part.begin
    assert dict(waits) == {(idle.engine, idle.reason): idle.cycles for idle in periodic_timeline(program).idle}


@settings(max_examples=17, deadline=None)
@given(PROGRAMS)
def test_a_track_has_no_gap_and_ends_with_the_program(program: Program) -> None:
    at = dict.fromkeys(Engine, Fraction(0))
    for part in tracks(program):
        assert part.begin == at[part.engine]
        at[part.engine] = part.end
    assert set(at.values()) == {periodic_timeline(program).cycles}
