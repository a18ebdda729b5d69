"""Tiles of stacked rows: the search against every number of tiles, its floor, and many cases at once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.planning.sweeping.stacked_rows import best_tiles_of_stacked
from attenio.planning.words.stacked_rows import StackedRows, StackedWords, best_stacked_rows, stacked_floor

LAWS = settings(max_examples=150, deadline=None, derandomize=True)
NAMES = ("stacked_rows", "kept_keys")


@st.composite
def some_words(draw, longest=90):
    per_row, per_slot, key, groups = (draw(st.integers(1, most)) for most in (12, 9, 9, 7))
    phase = StackedRows(*NAMES, per_row, per_slot, 0, key, draw(st.integers(0, 9)), groups)
    rows, keys = draw(st.integers(1, longest)), draw(st.integers(1, longest))
    room = per_row + per_slot + draw(st.integers(0, rows * per_row + keys * per_slot))
    return StackedWords(phase, rows, keys, room)


def floor_of(words):
    return stacked_floor(words.phase, words.rows, words.keys, words.room)


@LAWS
@given(some_words())
def test_no_number_of_tiles_beats_the_best_and_none_goes_below_the_floor(words):
    fitting = range(words.fewest, words.rows + 1)
    every = {count: words.words(count) for count in fitting}
    moved, tile, slots = best_stacked_rows(words, float("inf"))
    assert moved == min(every.values())
    assert -(-words.rows // tile) == min(count for count in every if every[count] == moved)
    assert tile * words.phase.per_row + slots * words.phase.per_slot <= words.room and slots >= 1
    assert floor_of(words) <= moved
    assert best_stacked_rows(words, moved)[0] == moved


@LAWS
@given(st.lists(some_words(), min_size=1, max_size=6))
def test_many_cases_at_once_have_the_tiles_and_floors_of_each_by_itself(several):
    columns = [np.array(column) for column in zip(*(each.phase[2:] for each in several), strict=True)]
    sizes = [np.array(column) for column in zip(*(each[1:] for each in several), strict=True)]
    together = StackedWords(StackedRows(*NAMES, *columns), *sizes)
    found = best_tiles_of_stacked(together, np.full(len(several), 2**60))
    for place, words in enumerate(several):
        assert tuple(int(each[place]) for each in found) == best_stacked_rows(words, float("inf"))
        assert together.floor()[place] == floor_of(words)
