"""Schedules: every row tile is computed once, programs finish together, and heads that run together fit in L2."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.schedule import OVERHEAD, key_tiles, paced_schedule, schedule
from attenio.masks import Causal
from attenio.workload import Workload


def lists_of(found):
    return [found.entries[a:b] for a, b in zip(found.starts, found.starts[1:], strict=False)]


@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=30),
    heads=st.integers(1, 12),
    programs=st.integers(1, 20),
    at_once=st.integers(0, 5),
    one_by_one=st.booleans(),
)
def test_every_row_tile_of_every_head_is_computed_once(lengths, heads, programs, at_once, one_by_one):
    found = schedule(np.array(lengths), heads, programs=programs, heads_at_once=at_once, one_by_one=one_by_one)
    entries = found.entries[:-1]
    assert found.starts[-1] == len(entries) and len(found.starts) <= programs + 1
    computed = sorted((int(head), int(code) // 2) for head, code, *_ in entries)
    assert computed == [(head, tile) for head in range(heads) for tile in range(len(lengths))]
    assert all(len(each) > 0 for each in lists_of(found))


@given(
    lengths=st.lists(st.integers(1, 8), min_size=2, max_size=8, unique=True),
    heads=st.integers(1, 12),
    programs=st.integers(1, 20),
    at_once=st.integers(1, 5),
)
def test_heads_come_one_by_one_only_where_programs_finish_about_as_near_together(lengths, heads, programs, at_once):
    given = {"programs": programs, "heads_at_once": at_once}
    lengths = np.array(lengths)
    found, before = (schedule(lengths, heads, **given, one_by_one=each) for each in (True, False))
    last, best = (
        max(sum(lengths[code // 2] + OVERHEAD for _, code, *_ in each) for each in lists_of(lists))
        for lists in (found, before)
    )
    assert last <= 1.05 * best + 1e-9
    (alone,) = lists_of(schedule(lengths, heads, programs=1, heads_at_once=heads, one_by_one=True))
    assert [head for head, *_ in alone] == sorted([*range(heads)] * len(lengths))


@given(
    n=st.integers(1, 400), keys=st.integers(1, 400), row_tile=st.sampled_from((64, 128)), key_tile=st.just(64),
    missing=st.integers(0, 63),
)  # fmt: skip
def test_key_tiles_are_those_with_a_score(n, keys, row_tile, key_tile, missing):
    counted = key_tiles(n, keys, Band(above=keys - n), row_tile=row_tile, key_tile=key_tile, missing=missing)
    assert len(counted) == -(-(n + missing) // row_tile)
    i, j = np.arange(n)[:, None] + keys - n, np.arange(keys)
    seen = j <= i
    for tile, count in enumerate(counted):
        first = tile * row_tile - missing
        rows = seen[max(first, 0) : first + row_tile].any(0)
        touched = {int(key) // key_tile for key in np.flatnonzero(rows)}
        assert count == max(1, len(touched))


@pytest.mark.parametrize("n", [2048, 4096, 8192, 16384, 32768])
@pytest.mark.parametrize("row_tile", [128, 192])
def test_causal_programs_finish_within_four_percent_of_each_other(n, row_tile):
    lengths = key_tiles(n, n, Band(above=0), row_tile=row_tile, key_tile=128)
    found = schedule(lengths, 16 * max(1, 16384 // n), programs=132, heads_at_once=30 * 2**20 // (n * 512))
    loads = [sum(lengths[code // 2] + OVERHEAD for _, code, *_ in each) for each in lists_of(found)]
    assert max(loads) <= 1.04 * float(np.mean(loads))


def test_a_program_walks_keys_forth_and_back():
    found = schedule(np.full(16, 16), 64, programs=8, heads_at_once=1)
    for each in lists_of(found):
        assert [int(code) % 2 for _, code, *_ in each] == [place % 2 for place in range(len(each))]


def test_heads_come_in_runs():
    lengths = key_tiles(1024, 1024, Band(above=0), row_tile=128, key_tile=128)
    found = schedule(lengths, 8, programs=1, heads_at_once=2)
    order = [int(head) // 2 for head, *_ in lists_of(found)[0]]
    assert order == sorted(order)


def test_long_lists_are_dealt_out_in_turns():
    lengths = key_tiles(2**20, 2**20, Band(above=0), row_tile=128, key_tile=128)
    found = schedule(lengths, 16, programs=132, heads_at_once=1)
    loads = [sum(lengths[each[:, 1] // 2]) for each in lists_of(found)]
    assert max(loads) <= 1.02 * float(np.mean(loads))


def test_scores_of_the_lists_cover_the_causal_half():
    n, tile = 1024, 128
    lengths = key_tiles(n, n, Band(above=0), row_tile=tile, key_tile=tile)
    scores = int(lengths.sum()) * tile * tile
    assert 0 <= scores - Workload(queries=n, keys=n, d=64, mask=Causal()).scores <= n * tile


@given(tiles=st.integers(1, 30), length=st.integers(1, 40), heads=st.integers(1, 3), programs=st.integers(1, 7))
def test_nobody_waits_for_a_program_that_does_not_come(tiles, length, heads, programs):
    found = paced_schedule(tiles, length, heads, programs=programs, pace=3)
    entries, stretches = found.entries[:-1].tolist(), -(-length // 3)
    assert sorted((head, code // 2) for head, code, *_ in entries) == [
        (u, t) for u in range(heads) for t in range(tiles)
    ]
    counted = np.zeros(found.stretches, dtype=int)
    for _, _, base, _ in entries:
        counted[base : base + stretches] += 1
    for lag in (1, 4, 9):
        for _, _, base, others in entries:
            for stretch in range(max(lag, base), base + stretches):
                assert counted[stretch - lag] >= others
