import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.planning.problems import Problems
from attenio.workload import Workload

from .strategies import workloads

LAWS = settings(max_examples=20, deadline=None, derandomize=True)


@LAWS
@given(workload=workloads(longest=30), tile=st.integers(1, 12), width=st.integers(1, 12))
def test_counts_are_sums_over_patterns_for_integers_and_arrays(workload: Workload, tile: int, width: int) -> None:
    problems = Problems.separate(workload)
    tiles, widths = np.array([tile, tile + 3]), np.array([width, width + 1])
    for name in ("key_loads", "live_rows", "row_visits", "scores_beyond"):
        expected = sum(times * getattr(pattern, name)(tile) for pattern, times in problems.counts.patterns)
        assert getattr(problems.counts, name)(tile) == expected
        assert getattr(problems.counts, name)(tiles)[0] == expected
    met = sum(times * pattern.tile_rows(tile, width) for pattern, times in problems.counts.patterns)
    assert problems.counts.tile_rows(tile, width) == met
    assert problems.counts.tile_rows(tiles, widths)[0] == met
    loads, floor = problems.floors.loads_and_floor(tiles, widths)
    assert loads[0] == problems.counts.key_loads(tile)
    assert floor[0] <= met


@LAWS
@given(workload=workloads(longest=30), tile=st.integers(1, 12))
def test_floors_of_key_loads_hold_for_all_problems_together(workload: Workload, tile: int) -> None:
    for problems in (Problems.separate(workload), Problems.stacked(workload)):
        for constant, area, lost in problems.floors.key_load_floors:
            assert tile * (problems.counts.key_loads(tile) - constant + lost * tile) >= area


@LAWS
@given(workload=workloads(longest=30))
def test_shapes_are_those_that_no_other_problem_exceeds(workload: Workload) -> None:
    problems = Problems.separate(workload)
    every = {(pattern.rows, pattern.keys) for pattern, _ in problems.counts.patterns}
    kept = {(n, m) for n, m in every if not any((a, b) != (n, m) and a >= n and b >= m for a, b in every)}
    assert set(problems.counts.shapes) == kept
    assert problems.counts.most_rows == max(n for n, _ in every)
    assert problems.counts.most_keys == max(m for _, m in every)
