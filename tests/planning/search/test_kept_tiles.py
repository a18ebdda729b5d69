"""Tiles beside slots that keep keys: the search against every tile, and its floors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.masks.patterns import Band
from attenio.planning.problems import Problems
from attenio.planning.problems.counts import PatternCounts
from attenio.planning.search.kept_band import Kept
from attenio.planning.search.kept_tiles import KeptWords, best_kept_tile
from attenio.planning.search.room import Room, row_room
from attenio.planning.sweeping.kept_tiles import best_tiles_of
from attenio.workload import Workload

from ..strategies import workloads

LAWS = settings(max_examples=20, deadline=None, derandomize=True)


@LAWS
@given(
    workload=workloads(longest=60),
    words=st.integers(2, 400),
    per_row=st.integers(1, 9),
    per_slot=st.integers(1, 9),
    loads=st.integers(1, 9),
)
def test_no_tile_beats_the_best_beside_slots_and_no_floor_exceeds_what_tiles_move(
    workload: Workload, words: int, per_row: int, per_slot: int, loads: int
) -> None:
    one_way = Problems.separate(workload)
    for problems in (one_way, one_way.transposed):
        room = Room(words, 0, per_row, per_slot)
        most = row_room(problems, room)
        if most < 1:
            continue
        form = KeptWords(problems=problems, live=3, loads=loads, room=room)
        moved = {tile: int(form.words(tile)) for tile in range(1, most + 1)}
        fewest, tile = best_kept_tile(form, most)
        assert fewest == moved[tile] == min(moved.values())
        assert best_kept_tile(form, most, fewest)[0] == fewest
        for limit in moved:
            assert form.floor(limit) <= min(moved[tile] for tile in range(1, limit + 1))


@pytest.mark.parametrize("mask", ["dense", "causal", "window:1000", "window:999:both"])
@pytest.mark.parametrize("words", [150, 3000, 60_000, 131_000, 260_000])
def test_the_best_tile_of_a_long_sequence_is_the_best_of_a_full_enumeration(mask: str, words: int) -> None:
    problems = Problems.separate(Workload(queries=65_537, keys=65_999, d=1, mask=mask))
    form = KeptWords(problems=problems, live=64, loads=128, room=Room(words, 0, 4, 3))
    tiles = np.arange(1, row_room(problems, form.room) + 1)
    assert best_kept_tile(form, len(tiles))[0] == form.words(tiles).min()


@LAWS
@given(data=st.data())
def test_many_bands_at_once_have_the_tiles_of_each_by_itself(data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.tuples(*[st.integers(1, 90)] * 2, *[st.integers(0, 90)] * 2), min_size=1, max_size=8))
    rooms = [data.draw(st.tuples(st.integers(20, 700), st.integers(1, 9), st.integers(1, 9))) for _ in drawn]
    columns = [np.array(column, dtype=np.int64) for column in zip(*drawn, strict=True)]
    rows, keys, left, right = columns
    band = Band(rows=rows, keys=keys, left=left, right=right, shift=keys - rows)
    words, per_row, per_slot = (np.array(column, dtype=np.int64) for column in zip(*rooms, strict=True))
    kept = Kept(band, np.full(len(drawn), 5), np.full(len(drawn), 7), words, per_row, per_slot)
    most = np.minimum((words - per_slot) // per_row, rows)
    moved, tiles = best_tiles_of(kept, most, np.full(len(drawn), 2**40))
    for place, (n, m, before, behind) in enumerate(drawn):
        one = Problems(
            counts=PatternCounts(((Band(rows=n, keys=m, left=before, right=behind, shift=m - n), 1),)),
            runs=1, group=1, d=1, value_dim=1, intermediate_words=1,
        )  # fmt: skip
        size, row, slot = rooms[place]
        form = KeptWords(problems=one, live=5, loads=7, room=Room(size, 0, row, slot))
        assert (int(moved[place]), int(tiles[place])) == best_kept_tile(form, int(most[place]))
