"""Floors of forms, quick ones too, against the best tiles of these forms."""

from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.planning.problems import Problems
from attenio.planning.search.dataflow import allowed_forms, contenders, entrants_of, exceeds
from attenio.planning.search.forms import best_of_form, floor_of_form
from attenio.workload import Direction, Workload

LAWS = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def best_of_each(draw):
    """The problems of a band, with a fast memory for some of it, and every form with what its best tiles move."""
    n, d, value_dim, group = (draw(st.integers(1, most)) for most in (60, 9, 9, 3))
    mask = draw(st.sampled_from(["dense", "causal", f"window:{draw(st.integers(1, n))}"]))
    direction = draw(st.sampled_from(["forward", "backward"]))
    shape = {"n": n, "d": d, "value_dim": value_dim, "heads": group, "kv_heads": 1, "batch": draw(st.integers(1, 2))}
    workload = Workload(**shape, mask=mask, direction=direction)
    problems = Problems.separate(workload)
    fast_words = round((d + value_dim) * group * (4 + n * draw(st.floats(0, 3))))
    forms = [form for each in contenders(workload.direction) for form in allowed_forms(problems, each)]
    found = [(form, best_of_form(problems, form, fast_words)) for form in forms]
    return problems, fast_words, [(form, best.moved_words) for form, best in found if best is not None]


@LAWS
@given(best_of_each(), st.floats(0.5, 2), st.booleans())
def test_the_best_tiles_of_a_form_are_above_its_floor_whatever_the_limit(case, share, closely):
    problems, fast_words, best = case
    for form, words in best:
        for limit in (inf, words, share * words):
            floor = floor_of_form(problems, form, fast_words, limit, closely=closely)
            assert floor < inf
            assert not exceeds(floor, words)


@LAWS
@given(best_of_each(), st.floats(1, 2))
def test_tiles_within_a_limit_are_found_with_it(case, share):
    problems, fast_words, best = case
    for form, words in best:
        found = best_of_form(problems, form, fast_words, int(share * words))
        assert found is not None
        assert found.moved_words == words


@LAWS
@given(best_of_each())
def test_no_form_that_stores_scores_moves_as_few_words_as_what_all_of_them_move(case):
    problems, _, best = case
    every = [entrants_of(direction, problems) for direction in (Direction.FORWARD, Direction.BACKWARD)]
    for entrants in every:
        spilling = [each.form for some in entrants.of_each for each in some if each.spills]
        least = problems.runs * entrants.spilled.of(problems.counts)
        assert all(words >= least for form, words in best if form in spilling)
