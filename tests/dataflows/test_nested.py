import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.dataflows import execute, random_inputs
from attenio.dataflows.nested import nested_memories
from attenio.errors import MemoryOverflow
from attenio.planning.nested import LevelTiles, NestedPlan
from attenio.planning.plan import Dataflow, Tiles
from attenio.workload import Workload

from .laws import QUICK, counted, planned, tolerance, workloads


def counted_words(problem, head_tile, levels):
    """Words over every boundary, innermost first, by walking the rectangles of the matrix of required scores."""
    moved = [0] * len(levels)
    words, state = problem.dk + problem.dv, (problem.dv + 2) * problem.w

    def walk(level, rows, keys, heads, first, last):
        a, b = levels[level]
        for top in range(0, len(rows), a):
            tile = rows[top : top + a]
            needed = keys[problem.required[np.ix_(tile, keys)].any(axis=0)]
            outermost, count = level == len(levels) - 1, heads * len(tile)
            if outermost and len(needed) == 0:
                for k in range(len(levels)):
                    moved[k] += count * problem.dv
                continue
            runs = [needed[start : start + b] for start in range(0, len(needed), b)] or [needed]
            moved[level] += count * problem.dk + (0 if first else count * state) + len(needed) * words
            moved[level] += count * problem.dv if last else count * state
            for number, run in enumerate(runs if level else []):
                walk(level - 1, tile, run, heads, first and number == 0, last and number == len(runs) - 1)

    for head in range(0, problem.g, head_tile):
        heads = min(head_tile, problem.g - head)
        walk(len(levels) - 1, np.arange(problem.n), np.arange(problem.m), heads, True, True)
    return moved


def held_words(problem, head_tile, levels):
    h, a, b, peaks = min(head_tile, problem.g), problem.n, problem.m, []
    for number, (rows, keys) in reversed(list(enumerate(levels))):
        a, b = min(a, rows), min(b, keys)
        scores = h * a * b * problem.w if number == 0 else 0
        peaks.append(h * a * (problem.dk + (problem.dv + 3) * problem.w) + b * (problem.dk + problem.dv) + scores)
    return peaks[::-1]


def nested(workload, head_tile, levels, fast_words):
    return NestedPlan(
        workload=workload,
        fast_words=tuple(fast_words),
        head_tile=head_tile,
        tiles=tuple(LevelTiles(query_tile=a, key_tile=b) for a, b in levels),
        moved_words=(0,) * len(levels),
        peak_words=(0,) * len(levels),
    )


@st.composite
def nested_tiles(draw, workload):
    depth = draw(st.integers(1, 4))
    rows = sorted(draw(st.lists(st.integers(1, 2 * workload.queries), min_size=depth, max_size=depth)))
    keys = sorted(draw(st.lists(st.integers(1, workload.keys + 1), min_size=depth, max_size=depth)))
    return list(zip(rows, keys, strict=True))


@QUICK
@given(workloads(), st.data())
def test_every_boundary_moves_and_every_level_holds_what_the_rectangles_say(workload, data):
    levels, head_tile = data.draw(nested_tiles(workload)), data.draw(st.integers(1, workload.group))
    problems = counted(workload, stacked=True)
    moved = sum(times * np.array(counted_words(problem, head_tile, levels)) for problem, times in problems)
    peaks = np.max([held_words(problem, head_tile, levels) for problem, _ in problems], axis=0)
    run = execute(nested(workload, head_tile, levels, peaks.tolist()))
    assert run.moved_words == tuple(moved)
    assert run.peak_words == tuple(peaks)
    assert run.max_abs_error <= tolerance(workload, random_inputs(workload))
    for level in range(len(levels)):
        short = peaks - (np.arange(len(levels)) == level)
        with pytest.raises(MemoryOverflow):
            execute(nested(workload, head_tile, levels, short.tolist()))


def test_dense_traffic_is_what_the_ceilings_say():
    n, m, d = 24, 20, 4
    workload = Workload(queries=n, keys=m, d=d)
    (a1, b1), (a2, b2) = levels = [(3, 2), (8, 5)]
    run = execute(nested(workload, 1, levels, (1000, 1000)))
    outer = 2 * n * d + -(-n // a2) * m * 2 * d
    visits = -(-m // b2)
    inner = visits * n * d + 2 * (visits - 1) * n * (d + 2) + n * d + n // a2 * -(-a2 // a1) * m * 2 * d
    assert run.moved_words == (inner, outer)
    assert b1 < b2


@QUICK
@given(workloads(), st.data())
def test_one_level_is_flash_attention_2(workload, data):
    if workload.group > 1 or str(workload.mask).startswith("prefix"):
        workload = Workload(n=workload.queries, d=workload.d, mask="causal")
    a, b = data.draw(st.integers(1, workload.queries)), data.draw(st.integers(1, workload.keys))
    flat = execute(planned(workload, Dataflow.FLASH_ATTENTION_2, Tiles.of(query_tile=a, key_tile=b), 10**6))
    run = execute(nested(workload, 1, [(a, b)], (10**6,)))
    assert (run.moved_words, run.peak_words) == ((flat.moved_words,), (flat.peak_words,))
    assert (run.output == flat.output).all()


def test_events_of_all_levels_lie_in_one_list_and_name_elements_of_slow_memory():
    workload = Workload(n=12, d=2, mask="causal")
    run = execute(nested(workload, 1, [(2, 2), (6, 4)], (1000, 1000)), record=True)
    assert all(trace.events is run.traces[0].events for trace in run.traces)
    for level, trace in enumerate(run.traces, start=1):
        loads = [e for e in trace.events if e.level == level and e.kind.value == "load" and e.operand == "K"]
        assert sum(event.words for event in loads) == trace.loads["K"]
        assert {int(row) for event in loads for row in event.rows} == set(range(12))


def test_memories_come_innermost_first_with_the_plan_s_capacities():
    plan = nested(Workload(n=4, d=2), 1, [(2, 2), (4, 4)], (100, 200))
    assert [fast.capacity_words for fast in nested_memories(plan)] == [100, 200]


def test_progress_of_a_nested_run_ends_at_its_total():
    calls = []
    plan = nested(Workload(n=12, d=2, heads=4, kv_heads=2), 1, [(2, 2), (5, 4)], (1000, 1000))
    execute(plan, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1][0] == calls[-1][1] == 2 * 2 * 12
