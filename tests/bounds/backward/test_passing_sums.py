"""Passing sums: the lemma on random lives of sums, the corners of the proof, and no run below the bound."""

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise, product
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for
from attenio.bounds.backward.gradient_rows import gradient_rows
from attenio.bounds.backward.passing_sums import passing_sum_words, passing_sums, weights_with_toll
from attenio.dataflows import execute
from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for
from attenio.workload import Workload

laws = settings(max_examples=26, deadline=None, derandomize=True)
tolls = st.fractions(0, Fraction(1, 4), max_denominator=64)


@dataclass(eq=False)
class Carrier:
    """A word that some products of a sum are in."""

    fast: bool = True
    slow: bool = False


@dataclass
class Sum:
    """One entry of a gradient: its carriers, and what has been done for it."""

    carriers: list[Carrier] = field(default_factory=list)
    products: int = 0
    loads: int = 0
    stores: int = 0
    arrivals: int = 0

    @property
    def present(self) -> int:
        return sum(each.fast for each in self.carriers)

    def look(self) -> tuple[int, int, int, int, int, int, int, int]:
        """Present carriers, dirty or not, carriers away, in fast memory or not, loads, stores, arrivals, products."""
        dirty = any(not each.slow for each in self.carriers)
        here = self.present
        return here, dirty, len(self.carriers) - here, here > 0, self.loads, self.stores, self.arrivals, self.products


class Lives:
    """Sums that are added to, merged, stored, loaded and dropped at random, until each is one word of slow memory."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.room, many = int(self.random.integers(2, 12)), int(self.random.integers(1, 10))
        self.sums, self.wanted = [Sum() for _ in range(many)], int(self.random.integers(1, 9))
        self.looks = [[each.look() for each in self.sums]]
        self.met: list[tuple[int, int]] = []  # of every arrival: which sum, and how many others were there
        ways = ["make", "add", "merge", "store", "load", "drop"]
        while not all(self._done(each) for each in self.sums):
            self._step(self.random.integers(many), self.random.choice(ways))
        for place in range(many):
            self._step(place, "drop")

    def _done(self, sum_: Sum) -> bool:
        return sum_.products == self.wanted and len(sum_.carriers) == 1 and sum_.carriers[0].slow

    def _step(self, place: int, what: str) -> None:
        sum_, before = self.sums[place], self.sums[place].present
        here = [each for each in sum_.carriers if each.fast]
        away = [each for each in sum_.carriers if not each.fast]
        full = sum(each.present for each in self.sums) >= self.room
        if what == "make" and not full and sum_.products < self.wanted:
            sum_.carriers.append(Carrier())
            sum_.products += 1
        elif what == "add" and here and sum_.products < self.wanted:
            sum_.carriers.remove(here[0])
            sum_.carriers.append(Carrier())
            sum_.products += 1
        elif what == "merge" and len(here) > 1:
            sum_.carriers = [*(each for each in sum_.carriers if each not in here[:2]), Carrier()]
        elif what == "store" and here:
            here[0].slow = True
            sum_.stores += 1
        elif what == "load" and away and not full:
            away[0].fast = True
            sum_.loads += 1
        elif what == "drop" and any(each.slow for each in here):
            next(each for each in here if each.slow).fast = False
        else:
            return
        if not before and sum_.present:
            sum_.arrivals += 1
            self.met.append((place, sum(each.present > 0 for each in self.sums) - 1))
        self.looks.append([each.look() for each in self.sums])


def _tick(look: tuple[int, ...], toll: Fraction) -> Fraction:
    """What a sum adds to the clock: words moved, dirty or not, tolls of carriers away and of one that is in."""
    _, dirty, away, there, loads, stores, arrivals, _ = look
    return loads + stores + dirty + toll * (3 * away + 2 * there - 2 * arrivals)


def _stays(stretch: list[tuple[int, ...]]) -> bool:
    """Whether a sum is in at the end, ever since the beginning or since a word of it was made."""
    goes = any(before[3] and not after[3] for before, after in pairwise(stretch))
    loaded = any(after[6] > before[6] and after[4] > before[4] for before, after in pairwise(stretch))
    return bool(stretch[-1][3]) and not goes and not loaded


@pytest.mark.parametrize("seed", range(60))
def test_a_sum_that_goes_or_is_loaded_pays_a_toll_and_one_that_stays_a_word(seed: int) -> None:
    lives = Lives(seed)
    toll = Fraction(int(lives.random.integers(0, 17)), 64)
    for _ in range(60):
        start, end = sorted(int(step) for step in lives.random.integers(0, len(lives.looks), 2))
        for place in range(len(lives.sums)):
            stretch = [looks[place] for looks in lives.looks[start : end + 1]]
            first, last = stretch[0], stretch[-1]
            charge = 0 if last[7] == first[7] else 1 if _stays(stretch) else 1 + toll
            assert charge <= first[3] + _tick(last, toll) - _tick(first, toll)


@pytest.mark.parametrize("seed", range(60))
def test_a_step_is_short_an_arrival_meets_what_fits_and_three_tolls_a_sum_are_left_at_the_end(seed: int) -> None:
    lives = Lives(seed)
    toll = Fraction(int(lives.random.integers(0, 17)), 64)
    clock = [sum((_tick(look, toll) for look in looks), Fraction(0)) for looks in lives.looks]
    assert all(0 <= after - before < 2 for before, after in pairwise(clock))
    assert len(lives.met) == sum(each.arrivals for each in lives.sums)
    assert all(others <= lives.room - 1 for _, others in lives.met)
    moved = sum(each.loads + each.stores for each in lives.sums)
    assert clock[-1] + 2 * toll * len(lives.met) == moved + 3 * toll * len(lives.sums)


@pytest.mark.parametrize("seed", range(60))
def test_two_sums_that_stay_in_a_stretch_are_both_there_when_the_later_one_comes(seed: int) -> None:
    lives = Lives(seed)
    for _ in range(30):
        start, end = sorted(int(step) for step in lives.random.integers(0, len(lives.looks), 2))
        stretches = [[looks[place] for looks in lives.looks[start : end + 1]] for place in range(len(lives.sums))]
        staying = [stretch for stretch in stretches if _stays(stretch)]
        for one, other in product(staying, repeat=2):
            came = max(next(at for at, look in enumerate(stretch) if look[3]) for stretch in (one, other))
            assert all(look[3] for stretch in (one, other) for look in stretch[came:])


@laws
@given(st.integers(3, 10**4), st.integers(1, 400), st.data(), tolls, st.floats(1, 8))
def test_no_number_of_epochs_and_arrivals_costs_less(
    fast: int, epochs: int, data: st.DataObject, toll: Fraction, gain: float
) -> None:
    """A run of so many epochs that does as much as it can; ``gain`` is what pairs that flow in add to an epoch."""
    length = data.draw(st.integers(1, 3 * fast))
    rest, arrivals = data.draw(st.integers(0, length - 1)), data.draw(st.integers(0, 10**5))
    budget = fast + length + 2
    work = Fraction(budget**2, 4) * Fraction(gain)
    for begins in (fast, 0):  # with an empty fast memory, or a full one
        if epochs == 1:
            clock = begins + rest
            done = work * Fraction(clock if begins else fast + clock, budget)
        else:
            done = (epochs - 1) * work + work * Fraction(fast + rest, budget) + 2 * toll * fast * arrivals
            clock = begins + (epochs - 1) * length + rest
        words = clock + (2 * toll * arrivals if epochs > 1 else 0)  # and less three tolls for every sum
        if budget * done >= fast * work:
            assert words >= length * done / work + begins - Fraction(length * fast, budget)


@laws
@given(st.integers(1, 400), st.floats(0, 1), tolls)
def test_every_choice_of_sums_that_stay_and_pass_weighs_no_more_than_words_and_meetings_pay(
    d: int, part: float, toll: Fraction
) -> None:
    dv = min(d, ceil(part * d) or 1)
    width, toll = d + dv, min(toll, Fraction(dv, 2 * d))
    of_rows, of_keys = 2 * width * (1 + toll), 2 * width
    ways = (0, 1, 2)  # no product, sums that stay, sums that come or go
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
    fast_words = data.draw(st.integers(4 * d * d, 24 * d * d)) + 8
    try:
        plan = best_plan_for(workload, fast_words)
    except DoesNotFit:
        return
    assert passing_sums(workload, fast_words).words <= execute(plan).moved_words == plan.moved_words


@laws
@given(st.integers(1000, 10**6), st.integers(4, 256), st.floats(7.5, 200))
def test_equal_widths_give_thirteen(n: int, d: int, squares: float) -> None:
    fast_words = ceil(squares * d * d)
    leading = 13 * n * n * d * d / fast_words
    words = passing_sums(Workload(n=n, d=d, direction="backward"), fast_words).words
    low = leading * (1 - 2 / fast_words) + fast_words / 2 - 9 * n * d / 4 - 1
    if leading > fast_words:
        assert max(low, 0) <= words <= max(leading + fast_words / 2 + 2 - 9 * n * d / 4, 0)
    if 40 * squares * d < n:
        assert words > 1.05 * gradient_rows(Workload(n=n, d=d, direction="backward"), fast_words).words


@laws
@given(st.integers(10**5, 10**6), st.integers(8, 256), st.floats(0, 0.5), st.floats(6, 40))
def test_narrow_values_give_what_a_two_pass_schedule_moves(n: int, d: int, part: float, squares: float) -> None:
    dv, fast_words = max(1, int(part * d)), ceil(squares * d * d)
    two_pass = (d + dv) * (2 * d + dv) + 2 * (d + dv) ** 2
    words = passing_sums(Workload(n=n, d=d, value_dim=dv, direction="backward"), fast_words).words
    leading = n * n * two_pass / fast_words
    assert leading * (1 - 2 / fast_words) - 1.5 * dv / d * n * (2 * d + dv) - 1 <= words <= leading + fast_words / 2 + 2


def test_wider_values_and_several_units_have_no_such_bound() -> None:
    assert passing_sum_words(1e12, 1e6, 64.0, 65.0, 1e5) == 0.0 < passing_sum_words(1e12, 1e6, 64.0, 64.0, 1e5)
    for units, direction in ((2, "backward"), (1, "training"), (1, "forward")):
        names = [bound.theorem for bound in bounds_for(Workload(n=64, d=8, direction=direction), 512, units=units)]
        assert "passing-sums" not in names


def test_a_regime_says_its_formula_only_where_that_holds() -> None:
    for dv, fast_words, said in (
        (64, ceil(200 / 27 * 64**2), "large fast memory"),
        (64, 200 * 64**2 // 27, "below 30340.7 words"),
        (65, 10**6, "says nothing"),
    ):
        bound = passing_sums(Workload(n=10**6, d=64, value_dim=dv, direction="backward"), fast_words)
        assert bound.regime.startswith(said) and (bound.words == 0) == (dv > 64)


def test_arrays_say_what_floats_say() -> None:
    points = list(product((1e3, 1e12), (1e2, 1e7), (8.0, 64.0), (4.0, 8.0, 64.0), (3.0, 400.0, 4e4, 1e6)))
    assert passing_sum_words(*np.array(points).T).tolist() == [passing_sum_words(*point) for point in points]


def test_a_step_in_order_takes_it_for_its_second_part() -> None:
    step = Workload(n=65_536, d=64, direction="training")
    found = {bound.theorem: bound for bound in bounds_for(step, 65_536)}
    assert "passing-sums backward" in found["step-in-order"].regime
    assert found["step-in-order"].words > 1.04 * found["whole-gradient-epochs"].words
