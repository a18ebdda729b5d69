"""Keys that stay at turns: the search against every tile, and many cases at once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.planning.words.exchanged_keys import (
    MOST_TILES,
    ExchangedKeys,
    best_exchanged_keys,
    exchanged_key_words,
    held_at_turns,
    may_turn,
)

LAWS = settings(max_examples=150, deadline=None, derandomize=True)
NAMES = ("stacked_rows", "exchanged_keys")
NOTHING = 2**62


@st.composite
def some_cases(draw, longest=70):
    d, dv, w = draw(st.integers(1, 12)), draw(st.integers(1, 12)), draw(st.sampled_from([1, 1, 2]))
    phase = ExchangedKeys(*NAMES, d + (dv + 2) * w, d + 3 * w, d + dv, d + 1, 2 * w, 2 * w, d + dv)
    rows, keys = draw(st.integers(1, longest)), draw(st.integers(1, longest))
    return phase, (rows, keys), draw(st.integers(1, (2 * rows + keys) * (d + dv)))


@LAWS
@given(some_cases())
def test_no_tiles_that_fit_beat_the_best(case):
    phase, shape, fast_words = case
    rows, keys = shape
    every = [(a, s) for a in range(-(-rows // MOST_TILES), rows) for s in range(1, keys // 2 + 1)]
    fitting = [each for each in every if held_at_turns(phase, shape, *each) <= fast_words]
    least = min((exchanged_key_words(phase, shape, *each) for each in fitting), default=NOTHING)
    if not may_turn(phase, shape, fast_words):
        assert least == NOTHING
        return
    words, tile, slots = best_exchanged_keys(phase, shape, fast_words)
    assert words == least
    if fitting:
        assert exchanged_key_words(phase, shape, tile, slots) == words
        assert held_at_turns(phase, shape, tile, slots) <= fast_words


@LAWS
@given(st.lists(some_cases(longest=500), min_size=1, max_size=6))
def test_many_cases_at_once_have_the_tiles_of_each_by_itself(several):
    columns = [np.array(column) for column in zip(*(phase[2:] for phase, _, _ in several), strict=True)]
    rows, keys = (np.array([shape[place] for _, shape, _ in several]) for place in (0, 1))
    room = np.array([fast_words for _, _, fast_words in several])
    together = ExchangedKeys(*NAMES, *columns)
    found, tried = best_exchanged_keys(together, (rows, keys), room), may_turn(together, (rows, keys), room)
    for place, case in enumerate(several):
        assert tried[place] == may_turn(*case)
        if tried[place]:
            assert tuple(int(each[place]) for each in found) == best_exchanged_keys(*case)
