"""Plans in arrays against plans one by one: the same dataflow, tiles, words and peak, ties included."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import DoesNotFit
from attenio.granularity import FREE_TILES, Granularity
from attenio.masks import Causal, Dense, Mask, SlidingWindow
from attenio.planning import Plan, TrainingPlan, best_plan_for, training_plan_for
from attenio.planning.sweeping.cases import NOTHING, Cases, batches, spread
from attenio.planning.sweeping.columns import ABSENT, numbers_of, plan_columns
from attenio.planning.sweeping.solve import solve
from attenio.workload import Direction, Workload

LAWS = settings(max_examples=17, deadline=None, derandomize=True)


UNITS = st.sampled_from([1, 2, 3, 8, 16, 64])
# Workload, words of fast memory, granularity, and whether the case occurs once.
Question = tuple[Workload, int, Granularity, bool]


@st.composite
def questions(draw: st.DrawFn, longest: int, widest: int, most_words: int) -> Question:
    queries = draw(st.integers(1, longest))
    keys = draw(st.just(queries) | st.integers(1, longest))
    width = draw(st.integers(1, keys))
    both = SlidingWindow(width=width, causal=False)
    mask: Mask = draw(st.sampled_from([Dense(), Causal(), SlidingWindow(width=width), both]))
    workload = Workload(
        queries=queries,
        keys=keys,
        d=draw(st.integers(1, widest)),
        value_dim=draw(st.integers(1, widest)),
        heads=draw(st.sampled_from([1, 2, 3, 8])),
        kv_heads=1,
        mask=mask,
        accumulator=draw(st.sampled_from([None, "fp32"])),
    )
    granularity = draw(st.just(FREE_TILES) | st.builds(Granularity, rows=UNITS, keys=UNITS))
    return workload, draw(st.integers(1, most_words)), granularity, draw(st.booleans())


def cases_of(asked: list[Question]) -> Cases:
    patterns = [workload.separate_patterns[0][0] for workload, *_ in asked]

    def array(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    return Cases(
        rows=array([w.queries for w, *_ in asked]),
        keys=array([w.keys for w, *_ in asked]),
        left=array([p.left for p in patterns]),
        right=array([p.right for p in patterns]),
        d=array([w.d for w, *_ in asked]),
        value_dim=array([w.value_dim for w, *_ in asked]),
        group=array([w.group for w, *_ in asked]),
        intermediate_words=array([w.accumulator_words for w, *_ in asked]),
        fast_words=array([words for _, words, *_ in asked]),
        row_unit=array([unit.rows for *_, unit, _ in asked]),
        key_unit=array([unit.keys for *_, unit, _ in asked]),
        once=np.array([once for *_, once in asked]),
    )


def best_or_none(question: Question, direction: Direction) -> Plan | TrainingPlan | None:
    workload, fast_words, granularity, once = question
    workload = workload.towards(direction)
    try:
        if direction is Direction.TRAINING:
            return training_plan_for(workload, fast_words, granularity=granularity, alone=once)
        return best_plan_for(workload, fast_words, granularity=granularity)
    except DoesNotFit:
        return None


def check(asked: list[Question], direction: Direction) -> None:
    numbers, left = solve(cases_of(asked), direction)
    for case, question in enumerate(asked):
        if left[case]:
            continue
        plan = best_or_none(question, direction)
        assert plan is not None
        found = {name: int(values[case]) for name, values in numbers.items() if values[case] != ABSENT}
        assert found == numbers_of(plan)


DIRECTIONS = st.sampled_from(list(Direction))


@LAWS
@given(asked=st.lists(questions(longest=30, widest=9, most_words=700), min_size=1, max_size=12), direction=DIRECTIONS)
def test_small_cases_in_arrays_have_the_plan_they_have_alone(asked: list[Question], direction: Direction) -> None:
    check(asked, direction)


@LAWS
@given(asked=st.lists(questions(longest=60, widest=40, most_words=90), min_size=1, max_size=12), direction=DIRECTIONS)
def test_cases_in_the_smallest_memories_have_the_plan_they_have_alone(
    asked: list[Question], direction: Direction
) -> None:
    check(asked, direction)


@LAWS
@given(
    asked=st.lists(questions(longest=3000, widest=96, most_words=60_000), min_size=1, max_size=12),
    direction=DIRECTIONS,
)
def test_large_cases_in_arrays_have_the_plan_they_have_alone(asked: list[Question], direction: Direction) -> None:
    check(asked, direction)


def test_cases_too_large_for_64_bits_and_cases_that_do_not_fit_are_left() -> None:
    asked = [
        (Workload(n=2**30, d=1024, heads=64, kv_heads=1), 10**6, FREE_TILES, True),
        (Workload(n=1024, d=64), 2, FREE_TILES, True),
        (Workload(n=1024, d=64), 10**4, FREE_TILES, True),
    ]
    for direction in Direction:
        numbers, left = solve(cases_of(asked), direction)
        assert left.tolist() == [True, True, False]
        assert numbers["moved_words"][:2].tolist() == [NOTHING, NOTHING]
        plan = best_or_none(asked[2], direction)
        assert plan is not None
        assert numbers["moved_words"][2] == plan.moved_words
        assert set(numbers) == set(plan_columns(direction))


@LAWS
@given(counts=st.lists(st.integers(0, 9), min_size=1, max_size=9), most=st.integers(1, 12))
def test_spread_and_batches_visit_every_item_once_in_order(counts: list[int], most: int) -> None:
    owner, number = spread(np.array(counts))
    assert list(zip(owner, number, strict=True)) == [(k, i) for k, count in enumerate(counts) for i in range(count)]
    parts = list(batches(np.array(counts), most))
    assert [k for part in parts for k in range(part.start, part.stop)] == list(range(len(counts)))
    for part in parts:
        assert sum(counts[part]) <= most or part.stop - part.start == 1 or sum(counts[part]) == counts[part.start]
