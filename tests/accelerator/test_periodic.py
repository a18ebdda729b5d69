"""The periodic mode and the event-by-event mode are one timeline."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator import (
    Engine,
    GrowingStep,
    Pace,
    Program,
    Ramp,
    Repeat,
    Step,
    Work,
    event_timeline,
    periodic_timeline,
    spans,
)
from attenio.accelerator.growth import Growing, Listed
from attenio.errors import InvalidInput

NAMES = list("abcdef")
STEPS = st.builds(
    lambda name, engine, cycles, after: Step(name=name, engine=engine, cycles=cycles, after=tuple(after)),
    st.sampled_from(NAMES),
    st.sampled_from(list(Engine)),
    st.one_of(st.integers(0, 9), st.fractions(0, 5, max_denominator=6)),
    st.lists(st.sampled_from(NAMES), max_size=3),
)
NODES = st.recursive(
    STEPS,
    lambda nodes: st.builds(
        lambda count, body: Repeat(count=count, body=tuple(body)),
        st.integers(0, 12),
        st.lists(nodes, min_size=1, max_size=4),
    ),
    max_leaves=8,
)
# numbers that grow, or what is left of them over a divisor, or how often the divisor is in them
ROUND_NUMBERS = st.one_of(
    st.builds(Growing, st.integers(0, 5), st.integers(0, 3)),
    st.builds(
        lambda first, growth, by, part: Growing(first, growth).divided(by)[part],
        st.integers(0, 9),
        st.integers(0, 5),
        st.integers(1, 7),
        st.integers(0, 1),
    ),
    st.builds(lambda numbers: Listed(np.array(numbers)), st.lists(st.integers(0, 6), min_size=25, max_size=25)),
)
GROWING = st.builds(
    lambda step, size, elements, growth, pace: GrowingStep(
        one=replace(step, pace=replace(pace, elements=elements), cycles=step.cycles + 21),
        size=size,
        cycles=Fraction(growth, 2),
        elements=growth,
        rows=growth,
        keys=growth,
        work=Work(macs=3 * growth),
    ),
    STEPS,
    ROUND_NUMBERS,
    st.integers(7, 20),
    st.integers(0, 5),
    st.builds(
        lambda units, turn: Pace(elements=0, units=units, cycles_a_turn=turn), st.integers(1, 7), st.integers(1, 3)
    ),
)
IN_RAMPS = st.recursive(
    st.one_of(STEPS, GROWING),
    lambda nodes: st.builds(
        lambda count, body: Repeat(count=count, body=tuple(body)),
        st.one_of(st.integers(0, 5), ROUND_NUMBERS),
        st.lists(nodes, min_size=1, max_size=3),
    ),
    max_leaves=6,
)
RAMPS = st.builds(
    lambda times, body: Ramp(times=times, body=tuple(body)),
    st.integers(0, 25),
    st.lists(IN_RAMPS, min_size=1, max_size=5),
)
RAMPED_PROGRAMS = st.builds(
    lambda before, ramp, after, count: Program((*before, Repeat(count=count, body=(ramp, *after)))),
    st.lists(NODES, max_size=2),
    RAMPS,
    st.lists(NODES, max_size=2),
    st.integers(1, 3),
).filter(lambda program: program.steps <= 800)
PROGRAMS = st.builds(lambda body: Program(tuple(body)), st.lists(NODES, max_size=5)).filter(
    lambda program: program.steps <= 800
)


@settings(max_examples=20, deadline=None)
@given(PROGRAMS)
def test_recognising_steady_state_changes_nothing_and_every_cycle_is_accounted_for(program: Program) -> None:
    timeline = periodic_timeline(program)
    assert timeline == event_timeline(program)
    assert max((span.end for span in spans(program)), default=Fraction(0)) == timeline.cycles
    for engine in Engine:
        idle = sum(timeline.idle_by_reason(engine).values(), Fraction(0))
        assert timeline.busy_cycles(engine) + idle == timeline.cycles


@settings(max_examples=20, deadline=None)
@given(RAMPED_PROGRAMS)
def test_taking_many_rounds_of_a_ramp_at_once_changes_nothing(program: Program) -> None:
    assert periodic_timeline(program) == event_timeline(program)
    assert program.steps == sum(1 for _ in program)
    assert program.work == sum((step.work for step in program), Work())


@settings(max_examples=17, deadline=None)
@given(st.integers(1, 30), st.integers(-2, 3), st.integers(1, 9), st.integers(1, 40), st.data())
def test_ramps_of_a_pipelined_loop_agree_with_events(
    count: int, growth: int, load: int, times: int, data: st.DataObject
) -> None:
    times = min(times, count // -growth) if growth < 0 else times
    inner = (
        Step(name="load", engine=Engine.HBM, cycles=Fraction(load, 3), after=("scores",)),
        Step(name="outputs", engine=Engine.PE, cycles=2, after=("exp", "load")),
        Step(name="scores", engine=Engine.PE, cycles=data.draw(st.integers(0, 5)), after=("load", "queries")),
        Step(name="exp", engine=Engine.EXP, cycles=1, after=("scores",)),
    )
    body = (
        Step(name="queries", engine=Engine.HBM, cycles=data.draw(st.integers(0, 50)), after=("outputs",)),
        Repeat(count=Growing(count, growth), body=inner),
        Step(name="store", engine=Engine.HBM, cycles=7, after=("outputs",)),
    )
    program = Program((Ramp(times=times, body=body),))
    assert periodic_timeline(program) == event_timeline(program)


@settings(max_examples=14, deadline=None)
@given(st.integers(0, 9), st.integers(1, 7), st.integers(2, 6), st.integers(20, 90), st.booleans(), st.data())
def test_series_of_rounds_with_ragged_ends_agree_with_events(
    more: int, growth: int, tile: int, times: int, overlaps: bool, data: st.DataObject
) -> None:
    """Whole tiles of keys and what is left of them, as in causal programs: long periods, and series of them."""

    def granule(keys: int, *, cycles: int) -> tuple[Step, ...]:
        pace = Pace(elements=3 * keys, units=4, cycles_a_turn=Fraction(15, 7))
        return (
            Step(name="load", engine=Engine.HBM, cycles=pace.cycles, pace=pace, after=() if overlaps else ("use",)),
            Step(name="use", engine=Engine.PE, cycles=cycles * keys + 1, after=("load", "queries", "store")),
        )

    cycles = data.draw(st.integers(0, 5))
    keys = Growing(tile + more, growth)
    whole, rest = keys.divided(tile)
    ragged = tuple(
        GrowingStep.of(rest, one, two)
        for one, two in zip(granule(1, cycles=cycles), granule(2, cycles=cycles), strict=True)
    )
    body = (
        Step(name="queries", engine=Engine.HBM, cycles=data.draw(st.integers(0, 9)), after=("use",)),
        Repeat(count=whole, body=granule(tile, cycles=cycles)),
        Repeat(count=(keys + (tile - 1)).divided(tile)[0] - whole, body=ragged),
        Step(name="store", engine=Engine.HBM, cycles=2, after=("use",)),
    )
    program = Program((Ramp(times=times, body=body),))
    assert periodic_timeline(program) == event_timeline(program)
    assert program.work == sum((step.work for step in program), Work())


def test_a_ramp_of_a_billion_rounds_is_an_arithmetic_series() -> None:
    inner = (
        Step(name="load", engine=Engine.HBM, cycles=Fraction(30, 7), after=("use",)),
        Step(name="use", engine=Engine.PE, cycles=64, after=("load",)),
    )
    program = Program((Ramp(times=10**9, body=(Repeat(count=Growing(5, 3), body=inner),)),))
    rounds = 5 * 10**9 + 3 * 10**9 * (10**9 - 1) // 2
    assert program.steps == 2 * rounds
    assert periodic_timeline(program).cycles == rounds * (64 + Fraction(30, 7))


def test_a_ramp_that_shrinks_below_nothing_is_refused() -> None:
    step = Step(name="use", engine=Engine.PE, cycles=1)
    with pytest.raises(InvalidInput, match="a loop repeats -1 in a round of a ramp; it must be at least 0"):
        Ramp(times=4, body=(Repeat(count=Growing(5, -2), body=(step,)),))


def test_a_ramp_inside_a_ramp_is_refused() -> None:
    inner = Ramp(times=2, body=(Step(name="use", engine=Engine.PE, cycles=1),))
    with pytest.raises(InvalidInput, match="a ramp inside a ramp"):
        Ramp(times=2, body=(Repeat(count=2, body=(inner,)),))


def test_engines_that_run_apart_for_ever_are_still_exact() -> None:
    loose = (
        Step(name="a", engine=Engine.HBM, cycles=3),
        Step(name="b", engine=Engine.PE, cycles=5),
        Step(name="c", engine=Engine.EXP, cycles=1, after=("a", "b")),
    )
    late = Step(name="b", engine=Engine.PE, cycles=1000)
    program = Program((Step(name="a", engine=Engine.HBM, cycles=1500), late, Repeat(count=800, body=loose)))
    assert periodic_timeline(program) == event_timeline(program)


def test_a_billion_rounds_take_no_longer_than_a_few() -> None:
    body = (
        Step(name="load", engine=Engine.HBM, cycles=Fraction(30, 7), after=("use",)),
        Step(name="use", engine=Engine.PE, cycles=64, after=("load",)),
    )
    program = Program((Repeat(count=10**6, body=(Repeat(count=10**3, body=body),)),))
    assert periodic_timeline(program).cycles == 10**9 * (64 + Fraction(30, 7))
