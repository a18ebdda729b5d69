import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.epochs import products_per_epoch
from attenio.bounds.fused_epochs import fused_epoch_words, fused_epochs
from attenio.bounds.one_shot import one_shot
from attenio.bounds.whole_products import LARGEST_FAST_WORDS
from attenio.workload import Workload

from .small_memories import best_whole_epochs, few_positions, moves_no_less_when_run

laws = settings(max_examples=26, deadline=None, derandomize=True)


@laws
@given(st.integers(1, 256), st.floats(1e-6, 1.0), st.lists(st.floats(0.0, 1.0), min_size=5, max_size=5))
def test_no_split_of_an_epoch_does_more_weighted_work_than_it_is_granted(
    d: int, fill: float, parts: list[float]
) -> None:
    budget = fill * 5 * d * d
    total = sum(parts) or 1.0
    queries, keys, values, outputs, charged = (budget * part / total for part in parts)
    weight = np.sqrt(max(0.0, 1 - budget / (10 * d * d)))
    score_products = np.sqrt(queries * keys * charged)
    output_products = np.sqrt(values * outputs * (charged + queries * keys / d**2))
    assert weight * score_products + output_products <= products_per_epoch(budget) * (1 + 1e-9)


@laws
@given(st.integers(1, 64), st.floats(1e-3, 1.0), st.data())
def test_no_short_epoch_does_more_than_it_is_granted_without_weights(d: int, fill: float, data: st.DataObject) -> None:
    budget, parts = fill * 11 * d * d / 6, st.floats(0.0, 1.0)
    charged = data.draw(parts) ** 2 * budget
    full = data.draw(parts) * (budget - charged) / d  # words of every column of the scores
    more = np.array(data.draw(st.lists(parts, min_size=d, max_size=d)))
    more *= data.draw(parts) * (budget - charged - full * d) / max(more.sum(), 1.0)
    scores = np.minimum(charged, (full + more) ** 2 / 4).sum()
    outputs = np.sqrt(charged + full * full / 4) * (budget - charged - full * d - more.sum()) / 2
    assert scores + outputs <= products_per_epoch(budget) * (1 + 1e-9)


def test_no_short_epoch_on_a_grid_does_more_and_a_longer_one_does() -> None:
    shares = np.linspace(0, 1, 401)
    for budget, holds in ((0.5, True), (1.7, True), (11 / 6, True), (1.9, False)):  # in units of d², for d = 1
        charged, fresh = np.meshgrid(budget * shares, budget / 2 * shares)
        work = np.minimum(charged, fresh**2) + np.sqrt(charged + fresh**2) * (budget - charged - 2 * fresh) / 2
        assert (work.max() <= products_per_epoch(budget) * (1 + 1e-12)) == holds


def test_no_epoch_that_is_sought_uphill_does_more_and_some_do_as_much() -> None:
    rng = np.random.default_rng(3)
    for budget in (0.1, 1.0, 3.0, 5.0):  # in units of d², for d = 1
        some, best, weight = rng.dirichlet(np.full(5, 0.5), 10_000) * budget, 0.0, np.sqrt(1 - budget / 10)
        for step in range(14):
            queries, keys, values, outputs, charged = some.T
            work = weight * np.sqrt(queries * keys * charged)
            work += np.sqrt(values * outputs * (charged + queries * keys))
            best = max(best, work.max())
            near = some[np.argsort(work)[-50:]].repeat(100, axis=0)
            near *= np.exp(rng.normal(0, 0.5 * 0.7**step, near.shape))
            some = near / near.sum(axis=1, keepdims=True) * budget
        assert 0.98 <= best / products_per_epoch(budget) <= 1 + 1e-12


@laws
@given(st.integers(2000, 10**6), st.integers(4, 256), st.integers(1, 256), st.floats(0.0, 1.0))
def test_the_stated_form_is_reached_up_to_fast_memory_of_d_squared(n: int, d: int, dv: int, share: float) -> None:
    fast_words = max(1, int(share * d * d))
    stated = 2 * n * n * (dv + np.sqrt(d * d - 0.3 * fast_words)) / np.sqrt(fast_words) - n * n - fast_words
    assert fused_epochs(Workload(n=n, d=d, value_dim=dv), fast_words).words >= stated * (1 - 1e-9) - 1


@laws
@given(st.integers(1, 10**6), st.integers(1, 256), st.integers(1, 256), st.floats(0.0, 3.0), st.integers(1, 200))
def test_its_regime_is_a_formula_of_its_words(n: int, d: int, dv: int, share: float, units: int) -> None:
    fast_words, scores = max(1, int(share * d * d)), n * n
    bound = fused_epochs(Workload(n=n, d=d, value_dim=dv), fast_words, units=units)
    if 2 * fast_words > 5 * d * d:
        assert (bound.regime, bound.words) == ("says nothing above 5d²/2", 0)
        return
    size, _, formula = bound.regime.partition(" fast memory: ")
    if "k T" in formula:
        assert units == 1 and (fast_words + 1) ** 3 > (scores * (d + dv)) ** 2
        return
    formula, *known = formula.partition(", T = ")
    numbers = {"Z": scores, "d": d, "dv": dv, "M": fast_words}
    if known[1]:
        assert size == "between small and large"
        length, _, weight = known[1].replace(",", "").partition(" and λ = ")
        numbers |= {"T": int(length), "λ": float(weight or 1)}
    least = value_of(formula.removesuffix(", up to whole numbers"), numbers)
    if "√(M+1)" in formula or "up to whole numbers" in formula:
        lost = (fast_words + 1) ** 2.5 / (8 * scores * (d + dv)) + 2 * fast_words + 4
        assert least - lost <= bound.words * (1 + 1e-12) and bound.words <= least * (1 + 1e-12) + 2
    elif bound.words:
        assert bound.words == pytest.approx(least, rel=1e-5 * (1 + scores / bound.words), abs=2)


def value_of(formula: str, numbers: dict[str, float]) -> float:
    """A formula as regimes have it, with numbers for its letters."""
    plain = formula.replace("^", "**").replace("√M", "(M)**0.5").replace("√(M+1)", "(M+1)**0.5")
    plain = re.sub(r"(?<=[\w)]) (?=[\w(])", "*", plain).replace("λd", "λ*d")
    return float(eval(plain, {"__builtins__": {}}, numbers))


def test_regimes_of_each_kind() -> None:
    for n, d, fast_words, said in (
        (16384, 64, 8, "tiny fast memory: 16 Z (d+dv)/20 - Z - 8"),
        (16384, 64, 1638, "small fast memory: 2 Z (d+dv)/√M - Z + M, up to whole numbers"),
        (512, 64, 1638, "small fast memory: 2 Z (d+dv)/√M - Z + M, up to whole numbers"),
        (16384, 64, 3276, "between small and large fast memory: T Z (d+dv)/((M+T)/3)^1.5 - Z - (T-M), T = 4,233"),
        (1000, 16, 10**4, "says nothing above 5d²/2"),
    ):
        assert fused_epochs(Workload(n=n, d=d), fast_words).regime == said
    several = fused_epochs(Workload(n=16384, d=64), 1638, units=4).regime
    assert several == "small fast memory: 2 Z (d+dv)/√M - Z - 4 M"
    wide = fused_epochs(Workload(n=1000, d=16, value_dim=64), 256, units=4).regime
    assert wide.endswith("T Z (dv + λd)/((M+T)/3)^1.5 - Z - 4 (T-M), T = 448 and λ = 0.851469")


@laws
@given(st.integers(1, 10**6), st.integers(1, 256), st.integers(1, 256), st.integers(LARGEST_FAST_WORDS + 1, 2**20))
def test_forbidding_recomputation_never_weakens_the_bound(n: int, d: int, dv: int, fast_words: int) -> None:
    workload = Workload(n=n, d=d, value_dim=dv)
    # In smaller memories whole numbers count, which one shot leaves out.
    # One shot has no whole epochs.
    assert fused_epochs(workload, fast_words).words <= one_shot(workload, fast_words).words + 2 * fast_words + 1


def test_it_says_nothing_above_five_halves_of_d_squared() -> None:
    assert fused_epochs(Workload(n=4096, d=16), 5 * 16 * 16 // 2 + 1).words == 0


@laws
@given(st.integers(1, 4000), st.integers(4, 64), st.integers(1, 200), st.floats(0.01, 2.5))
def test_on_one_fast_memory_it_says_what_the_best_whole_epochs_say(n: int, d: int, dv: int, share: float) -> None:
    fast_words, scores = max(149, int(share * d * d)), n * n  # whole products are ahead up to 148
    words = fused_epochs(Workload(n=n, d=d, value_dim=dv), fast_words).words
    several = fused_epochs(Workload(n=n, d=d, value_dim=dv), fast_words, units=2).words
    work = scores * (d + dv)
    best = best_whole_epochs(work, fast_words, 11 * d * d // 6) - scores
    assert several <= words <= max(best + 1 + 1e-9 * work, several + fast_words)
    assert words >= best - 1e-9 * work


@laws
@given(few_positions("forward", narrowest=2, widest=(16, 24)), st.floats(0.01, 2.5))
def test_no_plan_moves_less(workload: Workload, share: float) -> None:
    fast_words = max(3, int(share * workload.d**2))
    moves_no_less_when_run(workload, fast_words, fused_epochs(workload, fast_words).words)


def test_arrays_say_what_floats_say() -> None:
    sizes = (1.0, 4.0, 64.0), (1.0, 64.0, 300.0), (1.0, 2.0, 3.0, 100.0, 149.0, 2900.0, 4096.0, 9000.0, 1e7), (1.0, 2.0)
    points = list(product((1.0, 1e3, 3e7, 1e12), *sizes))
    assert fused_epoch_words(*np.array(points).T).tolist() == [fused_epoch_words(*point) for point in points]
