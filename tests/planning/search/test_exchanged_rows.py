"""Tiles of rows that exchange values for outputs: the search against every tile, and many cases at once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.planning.sweeping.bands import best_of_exchanges
from attenio.planning.words.exchanged_rows import (
    MOST_EXCHANGES,
    MOST_LAST,
    ExchangedRows,
    ExchangeSizes,
    best_exchanged_rows,
    exchanged_held,
    exchanged_words,
    may_exchange,
)

LAWS = settings(max_examples=60, deadline=None, derandomize=True)
NAMES = ("exchanged_rows", "exchanges", "last_rows", "kept_keys")
NOTHING = 2**62


@st.composite
def some_cases(draw, longest=24):
    d, dv, w = draw(st.integers(1, 12)), draw(st.integers(1, 12)), draw(st.sampled_from([1, 1, 2]))
    phase = ExchangedRows(*NAMES, d + (dv + 2) * w, d + 3 * w, d + dv, d + 1, 2 * w, d + dv, d)
    rows = draw(st.integers(2, longest))
    keys = rows + draw(st.sampled_from([0, 0, 0, 1, 5, rows]))
    return phase, (rows, keys), draw(st.integers(1, 2 * keys * (d + dv)))


def every_size(rows, keys):
    """Those with as many exchanges as they are to have, and few tiles after them."""
    for exchanges in range(1, MOST_EXCHANGES + 1):
        for tile in range(1, (rows - 1) // exchanges + 1):
            left = rows - exchanges * tile
            for last in range(-(-left // (MOST_LAST + 1)), left + 1):
                for slots in range(1, keys + 1):
                    yield ExchangeSizes(tile, exchanges, last, slots)


@LAWS
@given(some_cases())
def test_no_sizes_that_fit_beat_the_best(case):
    phase, shape, fast_words = case
    fitting = (each for each in every_size(*shape) if exchanged_held(phase, shape, each) <= fast_words)
    least = min((exchanged_words(phase, shape, each) for each in fitting), default=NOTHING)
    if not may_exchange(phase, shape, fast_words):
        assert least == NOTHING
        return
    words, sizes = best_exchanged_rows(phase, shape, fast_words)
    assert words == least
    if words < NOTHING:
        assert exchanged_words(phase, shape, sizes) == words and exchanged_held(phase, shape, sizes) <= fast_words


@LAWS
@given(some_cases(), st.floats(0.5, 1.5))
def test_sizes_within_a_limit_are_found_with_it_and_no_others(case, share):
    if not may_exchange(*case):
        return
    words, sizes = best_exchanged_rows(*case)
    limit = int(share * words)
    found = best_exchanged_rows(*case, limit)
    assert found == (words, sizes) if words <= limit else found[0] == NOTHING


@LAWS
@given(st.lists(some_cases(longest=500), min_size=1, max_size=6), st.floats(0.5, 1.5))
def test_many_cases_at_once_have_the_sizes_of_each_by_itself(several, share):
    columns = [np.array(column) for column in zip(*(phase[4:] for phase, _, _ in several), strict=True)]
    rows, keys = (np.array([shape[place] for _, shape, _ in several]) for place in (0, 1))
    together, room = ExchangedRows(*NAMES, *columns), np.array([fast_words for _, _, fast_words in several])
    limit = (share * (rows * together.live + keys * together.loads)).astype(np.int64)
    words, sizes = best_of_exchanges(together, (rows, keys), room, limit)
    tried = may_exchange(together, (rows, keys), room)
    for place, case in enumerate(several):
        assert tried[place] == may_exchange(*case)
        if tried[place]:
            fewest, found = best_exchanged_rows(*case, int(limit[place]))
            assert words[place] == fewest
            assert fewest == NOTHING or tuple(int(each[place]) for each in sizes) == found
