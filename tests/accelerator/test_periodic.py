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
    lambda program: program.steps <= 800
)


@settings(max_examples=70, deadline=None)
@given(PROGRAMS)
def test_recognising_steady_state_changes_nothing_and_every_cycle_is_accounted_for(program: Program) -> None:
    timeline = periodic_timeline(program)
    assert timeline == event_timeline(program)
    assert max((span.end for span in spans(program)), default=Fraction(0)) == timeline.cycles
    for engine in Engine:
        idle = sum(timeline.idle_by_reason(engine).values(), Fraction(0))
        assert timeline.busy_cycles(engine) + idle == timeline.cycles


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
