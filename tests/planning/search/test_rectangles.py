import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.planning.problems import Problems
from attenio.planning.search.floors import RectangleWords, least_resident_keys, range_worth_trying, ranges_worth_trying
from attenio.planning.search.rectangles import best_rectangle
from attenio.planning.search.room import Room, key_room
from attenio.workload import Workload

from ..strategies import workloads

LAWS = settings(max_examples=26, deadline=None, derandomize=True)


@st.composite
def rooms(draw: st.DrawFn) -> tuple[Room, ...]:
    return tuple(
        Room(
            words=draw(st.integers(1, 600)),
            per_score=draw(st.integers(1, 2)),
            per_row=draw(st.integers(1, 9)),
            per_key=draw(st.integers(0, 9)),
        )
        for _ in range(draw(st.integers(1, 2)))
    )


def forms(problems: Problems, data: st.DataObject) -> RectangleWords:
    visits, loads = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    return RectangleWords(problems=problems, visits=visits, loads=loads, saved=data.draw(st.integers(-6, visits)))


def exhaustive(form: RectangleWords, fits: tuple[Room, ...]) -> dict[int, tuple[int, int]]:
    """Words and the largest key tile, for every number of rows."""
    found = {}
    for rows in range(1, form.problems.counts.most_rows + 1):
        keys = key_room(form.problems, fits, rows)
        if keys >= 1:
            found[rows] = (form.words(rows, keys), keys)
    return found


@LAWS
@given(workload=workloads(longest=40), fits=rooms(), data=st.data())
def test_no_tile_beats_the_best_and_none_with_fewer_rows_equals_it(
    workload: Workload, fits: tuple[Room, ...], data: st.DataObject
) -> None:
    form = forms(Problems.separate(workload), data)
    every = exhaustive(form, fits)
    best = best_rectangle(form, fits)
    if not every:
        assert best is None
        return
    words, rows = min((words, rows) for rows, (words, _) in every.items())
    assert best is not None
    assert (best.words, best.keys) == every[best.rows]
    assert best.words == words
    assert best.rows == rows or form.problems.floors.kinks is None
    assert best_rectangle(form, fits, limit=words) == best
    assert best_rectangle(form, fits, limit=words - 1) is None
    assert form.floor(fits) * (1 - 1e-12) <= words


@LAWS
@given(workload=workloads(longest=60), fits=rooms(), data=st.data())
def test_ranges_worth_trying_leave_out_only_worse_tiles(
    workload: Workload, fits: tuple[Room, ...], data: st.DataObject
) -> None:
    form = forms(Problems.separate(workload), data)
    every = exhaustive(form, fits)
    if not every:
        return
    limits = (min(every), max(every))
    ceiling = data.draw(st.sampled_from(sorted({words for words, _ in every.values()})))
    least, most = range_worth_trying(form, fits, ceiling, limits)
    tried = {
        rows for first, last in ranges_worth_trying(form, fits, ceiling, limits) for rows in range(first, last + 1)
    }
    for rows, (words, _) in every.items():
        if words <= ceiling:
            assert least <= rows <= most
            assert rows in tried


@LAWS
@given(workload=workloads(longest=20), fits=rooms(), rows=st.integers(1, 25))
def test_key_room_is_the_largest_key_tile_that_fits_every_problem(
    workload: Workload, fits: tuple[Room, ...], rows: int
) -> None:
    problems = Problems.separate(workload)

    def fitting(keys: int) -> bool:
        return all(
            min(rows, n) * min(keys, m) * room.per_score + min(rows, n) * room.per_row + min(keys, m) * room.per_key
            <= room.words
            for room in fits
            for n, m in problems.counts.shapes
        )

    widest = max((keys for keys in range(1, problems.counts.most_keys + 1) if fitting(keys)), default=0)
    assert max(key_room(problems, fits, rows), 0) == widest


@pytest.mark.parametrize("mask", ["dense", "causal", "window:1000", "window:999:both"])
@pytest.mark.parametrize("words", [100, 5_000, 300_000])
@pytest.mark.parametrize("saved", [2, -3])
def test_the_best_tile_of_a_long_sequence_is_the_best_of_a_full_enumeration(mask: str, words: int, saved: int) -> None:
    problems = Problems.separate(Workload(queries=4_099, keys=5_003, d=1, mask=mask))
    form = RectangleWords(problems=problems, visits=3, loads=2, saved=saved)
    fits = (Room(words=words, per_score=1, per_row=4),)
    every = exhaustive(form, fits)
    best = best_rectangle(form, fits)
    assert best is not None
    assert (best.words, best.rows) == min((words, rows) for rows, (words, _) in every.items())


def test_weights_beyond_64_bits_are_compared_exactly() -> None:
    problems = Problems.separate(Workload(queries=300, keys=200, d=1, mask="causal"))
    fits = (Room(words=500, per_score=1, per_row=4),)
    small = best_rectangle(RectangleWords(problems=problems, visits=3, loads=2), fits)
    huge = best_rectangle(RectangleWords(problems=problems, visits=3 * 2**80, loads=2 * 2**80), fits)
    assert small is not None
    assert huge is not None
    assert (huge.words, huge.rows, huge.keys) == (2**80 * small.words, small.rows, small.keys)


@settings(LAWS, max_examples=60)
@given(workload=workloads(longest=40), data=st.data())
def test_statistics_beside_tiles_of_fewer_keys_never_move_less_than_those_that_pass(
    workload: Workload, data: st.DataObject
) -> None:
    problems = Problems.separate(workload)
    visits, statistics = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 4))
    resident = RectangleWords(problems=problems, visits=visits, loads=1, saved=-statistics)
    passing = RectangleWords(problems=problems, visits=visits + statistics, loads=1)
    keys = least_resident_keys((visits, statistics), problems.counts.scores, problems.counts.rows)
    for key_tile in range(1, min(problems.counts.most_keys, int(keys)) + 1):
        if key_tile < keys * (1 - 1e-12):
            for rows in range(1, problems.counts.most_rows + 1):
                assert passing.words(rows, key_tile + 1) <= resident.words(rows, key_tile)
