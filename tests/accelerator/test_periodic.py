"""The periodic mode and the event-by-event mode are one timeline."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.accelerator import Engine, Program, Repeat, Step, event_timeline, periodic_timeline, spans

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
PROGRAMS = st.builds(lambda body: Program(tuple(body)), st.lists(NODES, max_size=5)).filter(
    lambda program: program.steps <= 1500
)


@settings(max_examples=80, deadline=None)
@given(PROGRAMS)
def test_recognising_steady_state_changes_nothing(program: Program) -> None:
    assert periodic_timeline(program) == event_timeline(program)


@settings(max_examples=50, deadline=None)
@given(PROGRAMS)
def test_busy_and_idle_cycles_of_every_engine_add_up_to_all_cycles(program: Program) -> None:
    timeline = periodic_timeline(program)
    for engine in Engine:
        idle = sum(timeline.idle_by_reason(engine).values(), Fraction(0))
        assert timeline.busy_cycles(engine) + idle == timeline.cycles


@settings(max_examples=50, deadline=None)
@given(PROGRAMS)
def test_the_last_span_ends_when_the_timeline_does(program: Program) -> None:
    ends = [span.end for span in spans(program)]
    assert len(ends) == program.steps
    assert max(ends, default=Fraction(0)) == periodic_timeline(program).cycles


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
