"""A last tile of more rows in more groups of columns: the search against every tile, and many cases at once."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attenio.planning.words.form import Sizes
from attenio.planning.words.kept_keys import last_columns_form, pairs_of_columns, stacked_form
from attenio.planning.words.last_columns import best_last_columns, held_by_last, last_column_words, most_slots
from attenio.planning.words.stacked_rows import StackedWords, best_stacked_rows

LAWS = settings(max_examples=200, deadline=None, derandomize=True)
NOTHING = 2**62


@st.composite
def some_cases(draw, longest=60):
    d, dv, w = draw(st.integers(1, 9)), draw(st.integers(2, 20)), draw(st.sampled_from([1, 1, 2]))
    sizes = Sizes(d, dv, d + dv, w, 1)
    pairs = pairs_of_columns(sizes)
    assume(pairs)
    columns, last = draw(st.sampled_from(pairs))
    ((phase,), (alone,)) = (
        form.phases for form in (last_columns_form(sizes, columns, last), stacked_form(sizes, columns))
    )
    rows, keys = draw(st.integers(1, longest)), draw(st.integers(2, longest))
    return (phase, (rows, keys), draw(st.integers(1, (2 * rows + keys) * (d + dv)))), alone


@LAWS
@given(some_cases())
def test_no_tiles_that_fit_beat_the_best_or_tiles_that_are_all_alike(case):
    (phase, shape, fast_words), alone = case
    rows, keys = shape
    every = [(a, s) for a in range(1, (rows + 1) // 2) for s in range(1, most_slots(phase, keys) + 1)]
    fitting = [each for each in every if held_by_last(phase, shape, *each) <= fast_words]
    least = min((last_column_words(phase, shape, *each) for each in fitting if rows > 2 * each[0]), default=NOTHING)
    words, tile, slots = best_last_columns(phase, shape, fast_words)
    if words < NOTHING:
        assert rows > 2 * tile and slots >= 1
        assert last_column_words(phase, shape, tile, slots) == words
        assert held_by_last(phase, shape, tile, slots) <= fast_words
    alike = StackedWords(alone, rows, keys, fast_words - alone.beside)
    if alike.most >= 1:
        words = min(words, best_stacked_rows(alike, float("inf"))[0])
    assert words <= least


@LAWS
@given(st.lists(some_cases(longest=500), min_size=1, max_size=6))
def test_many_cases_at_once_have_the_tiles_of_each_by_itself(several):
    cases = [case for case, _ in several]
    of_each = [
        [np.array(column) for column in zip(*(phase[part][2:] for phase, _, _ in cases), strict=True)]
        for part in (2, 3)
    ]
    first, last = (type(cases[0][0].first)("stacked_rows", "kept_keys", *columns) for columns in of_each)
    together = cases[0][0]._replace(first=first, last=last)
    rows, keys = (np.array([shape[place] for _, shape, _ in cases]) for place in (0, 1))
    found = best_last_columns(together, (rows, keys), np.array([fast_words for _, _, fast_words in cases]))
    for place, case in enumerate(cases):
        assert tuple(int(each[place]) for each in found) == best_last_columns(*case)
