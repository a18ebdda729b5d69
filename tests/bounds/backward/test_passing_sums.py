"""Passing sums: the clock on random lives of sums, the corners of the proof, and no run below the bound."""

from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from math import ceil, floor, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for
from attenio.bounds.backward.gradient_rows import gradient_rows
from attenio.bounds.backward.passing_sums import half_for, passing_sum_words, passing_sums, toll_for, weights_with_toll
from attenio.dataflows import execute
from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for
from attenio.workload import Workload

from .lives import Lives, Look
from .tolled_epochs import TolledEpoch

laws = settings(max_examples=26, deadline=None, derandomize=True)
tolls = st.fractions(0, Fraction(1, 2), max_denominator=64)
LARGEST = Fraction(25, 51)


def _tick(look: Look, toll: Fraction) -> Fraction:
    """What a sum adds to the clock: words moved, what is there, tolls of carriers away, less what loads put aside."""
    return look.moved + look.there + toll * look.away - (1 - toll) * look.back


def _goes(stretch: list[Look]) -> int:
    """How often a sum that is not done leaves fast memory."""
    return sum(before.there and not after.there and not after.done for before, after in pairwise(stretch))


def _works(stretch: list[Look]) -> bool:
    return stretch[-1].products > stretch[0].products


def _stays(looks: list[Look]) -> list[tuple[int, int]]:
    """When a sum comes in and is in up to; the stay in which it is done ends there."""
    here = [look.there and not (look.done and before.done) for before, look in pairwise(looks)]
    edges = [False, *here, False]
    begins = [at for at in range(1, len(edges)) if edges[at] and not edges[at - 1]]
    ends = [at - 1 for at in range(1, len(edges)) if edges[at - 1] and not edges[at]]
    return list(zip(begins, ends, strict=True))


@cache
def _lives(seed: int) -> Lives:
    """Those that several laws look at; what these draw they draw by themselves."""
    return Lives(seed)


@pytest.mark.parametrize("seed", range(60))
def test_a_sum_with_a_product_pays_a_word_and_a_toll_each_time_it_leaves(seed: int) -> None:
    lives, random = _lives(seed), np.random.default_rng(seed)
    toll = Fraction(int(random.integers(0, 65)), 64)
    for _ in range(60):
        start, end = sorted(int(step) for step in random.integers(0, len(lives.looks), 2))
        for stretch in lives.stretches(start, end):
            first, last = stretch[0], stretch[-1]
            paid = first.there + _tick(last, toll) - _tick(first, toll)
            assert paid >= (_works(stretch) or last.there) + toll * _goes(stretch)


@pytest.mark.parametrize("seed", range(60))
def test_the_clock_steps_by_less_than_two_and_words_end_above_it_and_what_loads_put_aside(seed: int) -> None:
    lives, random = _lives(seed), np.random.default_rng(seed)
    toll = Fraction(int(random.integers(0, 64)), 64)
    clock = [sum((_tick(look, toll) for look in looks), Fraction(0)) for looks in lives.looks]
    assert clock[0] == 0 and all(after - before < 2 for before, after in pairwise(clock))
    moved, back = (sum(getattr(each, name) for each in lives.sums) for name in ("moved", "back"))
    assert all(moved >= at + (1 - toll) * back for at in clock)
    for stretch, each in zip(lives.stretches(0, len(lives.looks)), lives.sums, strict=True):
        assert len(_stays(stretch)) <= 1 + each.back


@pytest.mark.parametrize("seed", range(60))
def test_a_stay_is_given_no_more_meetings_than_sums_pay_in_the_epoch_of_its_first(seed: int) -> None:
    """Any two sums that work and do not leave may meet once; the stay that began last is given the meeting."""
    lives, random = _lives(seed), np.random.default_rng(seed)
    cuts = sorted({0, len(lives.looks) - 1, *map(int, random.integers(0, len(lives.looks), 8))})
    epochs = [(lives.stretches(start, end), end) for start, end in pairwise(cuts)]
    stays = [_stays(looks) for looks in lives.stretches(0, len(lives.looks))]
    given: dict[tuple[int, int], list[tuple[int, int]]] = {}  # of a sum's stay: with whom, in which epoch
    for one, other in product(range(len(lives.sums)), repeat=2):
        kept = [
            number
            for number, (stretches, _) in enumerate(epochs)
            if all(_works(stretches[each]) and not _goes(stretches[each]) for each in (one, other))
        ]
        if one < other and kept:
            number = int(random.choice(kept))
            last = [max(b for b, _ in stays[each] if b <= epochs[number][1]) for each in (one, other)]
            later, earlier = (one, other) if last[0] > last[1] else (other, one)
            given.setdefault((later, max(last)), []).append((earlier, number))
    for meetings in given.values():
        stretches, _ = epochs[min(number for _, number in meetings)]
        assert all(_works(stretches[earlier]) or stretches[earlier][-1].there for earlier, _ in meetings)


parts = st.floats(0, 1, allow_subnormal=False)
shares = st.sampled_from([1.0, 0.99, 0.5, 0.1])


def _least_budget(rho: float, toll: float) -> float:
    """The words of an epoch from which on pairs that flow in gain nothing, for keys of width 1."""
    left = sqrt(1 - toll * rho / (2 + rho) ** 2)
    side, rest = (1 + rho) / left, toll * left
    middle = (2 * side + sqrt(4 * side**2 + 6 * side * rest)) / 3
    return 4 / 3 * middle * (middle + 2 * rest)


@laws
@given(parts, st.floats(1, 4), st.floats(-0.3, 0.3), st.floats(0, 1 / 6))
def test_meetings_beyond_what_is_charged_for_pay_in_every_epoch(
    rows: float, longer: float, near: float, gamma: float
) -> None:
    """An epoch of two words, in units of half of it; also near the epoch that is half rows and half keys."""
    for row in (2 * rows, 1 + near):
        key = 2 - row
        beyond = row * max(key - 1.04 * longer, 0) + key * max(row - 1.04 * longer, 0)
        assert row * key + gamma * beyond <= 1 + 1e-12


@laws
@given(st.floats(0.01, 1), shares, st.lists(st.one_of(parts, st.sampled_from([0.0, 1.0])), min_size=4, max_size=4))
def test_a_held_pair_weighs_no_more_than_its_words_pay(rho: float, part: float, drawn: list[float]) -> None:
    """Of a pair with products in a row or key whose sums have few inputs, while the other one has fresh pairs."""
    s, toll = 1 + rho, part * min(float(LARGEST), rho / 2)
    gamma, left = toll / (2 + rho), 1 - toll * rho / (2 + rho) ** 2
    f, g = drawn[0], drawn[1] * s
    asked = left * max(f + g - toll * (1 - f), 0) ** 2
    sums, inputs = f + drawn[2] * (1 - f), g + drawn[3] * (s - g)
    assert (s + g) * (sums + inputs - gamma * max((1 + rho) * sums - inputs, 0)) >= asked - 1e-12
    sums, inputs = g + drawn[2] * (s - g), f + drawn[3] * (s - f)
    assert (s + f) * (sums + inputs - gamma * max(sums - inputs, 0)) >= asked - 1e-12


@laws
@given(st.floats(0.01, 1), shares, st.floats(1, 6), parts, parts)
def test_pairs_that_flow_into_a_long_epoch_add_nothing(
    rho: float, part: float, longer: float, held: float, share: float
) -> None:
    toll = part * min(float(LARGEST), rho / 2)
    s, left = 1 + rho, 1 - toll * rho / (2 + rho) ** 2
    budget = longer * _least_budget(rho, toll)
    pairs = held * budget
    fresh = (budget - pairs) ** 2 / 4
    for area in (share * fresh, min(fresh, s * s / left * pairs), fresh):
        done = fresh - area + 2 * s * sqrt(pairs * area / left) + 2 * s * toll * pairs
        assert done <= budget**2 / 4 * (1 + 1e-12)


@laws
@given(st.floats(0.01, 1), st.floats(0.5, 40), st.floats(0.3, float(LARGEST)))
def test_the_toll_is_the_largest_that_an_epoch_allows(rho: float, half: float, most: float) -> None:
    most = min(most, rho / 2)
    toll = toll_for(rho, half, most)
    assert toll <= most
    if toll > 0:
        assert half_for(rho, toll) == pytest.approx(_least_budget(rho, toll) / 2)
        assert half_for(rho, toll) <= half
    if 0 < toll < most:
        assert half_for(rho, toll) >= half * (1 - 1e-3)
    if toll < 0:
        assert half_for(rho, 0.0) >= half * (1 - 1e-12)


@laws
@given(st.integers(1, 4), parts, shares, st.integers(0, 2**32))
def test_no_epoch_does_more_than_its_words_and_stays_pay(d: int, part: float, share: float, seed: int) -> None:
    """Sets of words drawn at random, the best of them changed word by word, row by row and key by key."""
    dv = max(1, ceil(part * d))
    toll = share * min(float(LARGEST), dv / (2 * d))
    least = _least_budget(dv / d, toll) * d * d
    random = np.random.default_rng(seed)
    rows, keys = (int(size) for size in random.integers(1, 10, 2))
    best = max(
        (TolledEpoch.drawn(random, rows, keys, d, dv) for _ in range(8)), key=lambda each: each.done(toll, least)
    )
    for _ in range(100):
        other = best.changed(random)
        if other.done(toll, least) >= best.done(toll, least):
            best = other
    assert best.done(toll, least) <= 1 + 1e-12


@laws
@given(st.integers(3, 10**6), st.floats(4, 400), st.floats(0, 1.2), st.floats(0, 1), st.floats(1, 2))
def test_no_number_of_loads_of_sums_makes_a_run_cheaper(
    fast: int, turns: float, loads: float, first: float, longer: float
) -> None:
    """Meetings are worth ``aside`` words, ``free`` of them those of first stays; some whole number of epochs serves."""
    room = fast + 2.0
    longest = longer * room
    part = 2 - room / longest  # a load puts aside so many words for each that meetings are worth
    aside, work = loads * (turns + 2) * longest, turns * longest**2
    free = first * aside
    found = part * (aside - free)  # loads alone
    for epochs in {max(1, floor(turns - aside / longest) + step) for step in (-1, 0, 1, 2)}:
        half = (sqrt(aside**2 + 4 * epochs * work) - aside) / (2 * epochs)  # epochs·half² + aside·half = work
        if half >= longest * (1 - 2 / (turns + 1.5)):
            found = max(found, fast + epochs * (2 * half - room) + part * (aside - free))
    said = part * (turns * longest - free - longest / (4 * max(turns - 2, 1))) + fast
    assert found >= said * (1 - 1e-9)


@laws
@given(st.integers(1, 400), st.floats(0, 1), tolls)
def test_every_choice_of_sums_that_stay_and_pass_weighs_no_more_than_words_and_meetings_pay(
    d: int, part: float, toll: Fraction
) -> None:
    dv = min(d, ceil(part * d) or 1)
    width, toll = d + dv, min(toll, Fraction(dv, 2 * d))
    of_rows, of_keys = 2 * width * (1 + toll), 2 * width
    ways = (0, 1, 2)  # no product, sums that stay, sums that leave
    for dq, dk, value in product(ways, repeat=3):
        weight = of_rows * d * (dq > 0) + of_keys * (d * (dk > 0) + dv * (value > 0))
        row = width + d * (0, 1, 1 + toll)[dq]
        key = width + d * (0, 1, 1 + toll)[dk] + dv * (0, 1, 1 + toll)[value]
        meeting = (dq == 1) * d * (d * (dk == 1) + dv * (value == 1))
        assert weight <= row * key + 2 * toll * meeting
    for products in range(dv + 1):  # of dV alone, which need no values
        assert of_keys * products <= (d + products) ** 2
    heavy, light, pair = weights_with_toll(float(d), float(dv), float(toll))
    assert (heavy, light) == pytest.approx((float(of_rows), float(of_keys)))
    assert pair == pytest.approx(float(of_rows * d + of_keys * width))


@laws
@given(st.data(), st.sampled_from(["dense", "causal", "window:7"]))
def test_no_run_moves_less(data: st.DataObject, mask: str) -> None:
    d = data.draw(st.integers(1, 4))
    dv = data.draw(st.integers(1, d))
    heads = data.draw(st.sampled_from([1, 2]))
    n = data.draw(st.integers(8, 64))
    workload = Workload(n=n, d=d, value_dim=dv, mask=mask, heads=heads, kv_heads=1, direction="backward")
    fast_words = data.draw(st.integers(4 * d * d, 20 * d * d)) + 8
    try:
        plan = best_plan_for(workload, fast_words)
    except DoesNotFit:
        return
    assert passing_sums(workload, fast_words).words <= execute(plan).moved_words == plan.moved_words


@laws
@given(st.integers(20, 600), st.sampled_from([4, 8, 16]), st.integers(1, 10))
def test_where_all_keys_fit_a_plan_comes_within_three_in_a_hundred(keys: int, d: int, more: int) -> None:
    """One pass over the rows, with keys, values and their gradients in fast memory: 3nd, and no more than 4md once."""
    keys, n = keys + 60 * d, 10**8 * more
    workload = Workload(queries=n, keys=keys, d=d, direction="backward")
    fast_words = 4 * keys * d + 4 * d
    bound, moved = passing_sums(workload, fast_words).words, best_plan_for(workload, fast_words).moved_words
    assert bound <= 3 * n * d <= workload.compulsory_words <= moved < 1.03 * bound


@laws
@given(st.integers(1000, 10**6), st.integers(4, 256), st.floats(8.5, 200))
def test_equal_widths_give_nearly_fourteen(n: int, d: int, squares: float) -> None:
    fast_words = ceil(squares * d * d)
    leading, workload = (12 + 4 * LARGEST) * n * n * d * d / fast_words, Workload(n=n, d=d, direction="backward")
    words = passing_sums(workload, fast_words).words
    high = leading + fast_words + 1 - 1.189 * n * d
    if leading > 30 * fast_words:
        assert max(high - leading * 2 / fast_words - fast_words / 80 - n * d / 500, 0) <= words <= max(high, 0)
    if 40 * squares * d < n:
        assert words > 1.12 * gradient_rows(workload, fast_words).words


@pytest.mark.parametrize(("squares", "constant"), [(5.1, 12.5), (6, 13.2), (6.6, 13.6), (7.8, 13.96)])
def test_small_fast_memories_have_less_and_longer_epochs(squares: float, constant: float) -> None:
    n, d = 10**8, 512
    fast_words = int(squares * d * d)
    found = passing_sums(Workload(n=n, d=d, direction="backward"), fast_words).words
    assert constant < (found + 1.3 * n * d) * fast_words / (n * d) ** 2 < constant + 0.1


@laws
@given(st.integers(10**5, 10**6), st.integers(8, 256), st.floats(0, 0.98), st.floats(13, 40))
def test_narrow_values_give_what_a_two_pass_schedule_moves(n: int, d: int, part: float, squares: float) -> None:
    dv, fast_words = max(1, int(part * d)), ceil(squares * d * d)
    two_pass = (d + dv) * (2 * d + dv) + 2 * (d + dv) ** 2
    words = passing_sums(Workload(n=n, d=d, value_dim=dv, direction="backward"), fast_words).words
    leading = n * n * two_pass / fast_words
    assert leading * (1 - 2 / fast_words) - 1.04 * dv / d * n * (2 * d + dv) - 1 <= words <= leading + fast_words + 2


def test_wider_values_and_several_units_have_no_such_bound() -> None:
    sums, memory = (1e6, 2e6), (64.0, 1e5)
    assert passing_sum_words(1e12, *sums, 63.0, *memory) == 0.0 < passing_sum_words(1e12, *sums, 64.0, *memory)
    for units, direction in ((2, "backward"), (1, "training"), (1, "forward")):
        names = [bound.theorem for bound in bounds_for(Workload(n=64, d=8, direction=direction), 512, units=units)]
        assert "passing-sums" not in names


def test_a_regime_says_its_formula_only_where_that_holds() -> None:
    for n, dv, fast_words, said in (
        (10**6, 64, 8 * 64**2, "large fast memory"),
        (10**6, 64, 7 * 64**2, "small fast memory: a toll of 0.373"),
        (10**6, 64, 6 * 64**2, "small fast memory: a toll of 0.211, or longer epochs"),
        (10**6, 64, 4 * 64**2, "small fast memory: a toll of 0, or longer epochs"),
        (10**6, 64, 3 * 64**2, "says nothing where epochs are too short"),
        (10**6, 65, 10**6, "says nothing for dv > d"),
        (10**4, 64, 2 * 10**4 * 64, "says nothing where fast memory is too large"),
    ):
        bound = passing_sums(Workload(n=n, d=64, value_dim=dv, direction="backward"), fast_words)
        assert bound.regime.startswith(said) and (bound.words == 0) == said.startswith("says nothing")


def test_arrays_say_what_floats_say() -> None:
    points = list(product((1e3, 1e12), (1e2, 1e7), (2e7,), (8.0, 64.0), (4.0, 8.0, 64.0), (3.0, 400.0, 4e4, 1e6)))
    assert passing_sum_words(*np.array(points).T).tolist() == [passing_sum_words(*point) for point in points]


def test_a_step_in_order_takes_it_for_its_second_part() -> None:
    step = Workload(n=65_536, d=64, direction="training")
    found = {bound.theorem: bound for bound in bounds_for(step, 65_536)}
    assert "passing-sums backward" in found["step-in-order"].regime
    assert found["step-in-order"].words > 1.06 * found["whole-gradient-epochs"].words
