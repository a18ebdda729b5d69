"""Pairs made elsewhere: what a pair does in the epochs of a run, as that proof counts it, and what they do at most."""

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.pairs_made_elsewhere import most_by_held_pairs, words_for_held_pairs

from .random_runs import RandomRun, effective_products

laws = settings(max_examples=60, deadline=None, derandomize=True)
Pair = tuple[int, int]


class Cut:
    """A run that is cut into epochs: what every pair has in each of them."""

    def __init__(self, run: RandomRun, cuts: list[int]) -> None:
        self.flowing: dict[Pair, Counter[int]] = defaultdict(Counter)  # words of the pair, by epoch
        self.products: dict[Pair, Counter[int]] = defaultdict(Counter)  # p v
        self.factors: dict[Pair, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))  # t of q k
        self.terms: dict[Pair, Counter[int]] = defaultdict(Counter)
        made: dict[int, int] = {}
        for epoch, (start, end) in enumerate(pairwise(cuts)):
            seen: set[int] = set()
            for done, word in run.steps[start:end]:
                for each in [word] if done == "load" else word.parents if done == "make" else ():
                    if each.name[0] == "s" and made.get(id(each)) != epoch and id(each) not in seen:
                        self.flowing[each.name[1:3]][epoch] += 1
                        seen.add(id(each))
                if done == "make":
                    made[id(word)] = epoch
                    if word.name[0] == "l":
                        for parent in word.parents:
                            if parent.name[0] == "s":
                                self.terms[parent.name[1:3]][epoch] += 1
        for (i, j, _), step in effective_products(run).outputs:
            self.products[i, j][_epoch(cuts, step)] += 1
        for epoch, (start, end) in enumerate(pairwise(cuts)):
            for done, word in run.steps[start:end]:
                if done == "make" and word.name[0] == "s" and word.product:
                    (t,) = (each.name[3] for each in word.parents if each.name[0] == "q")
                    self.factors[word.name[1:3]][epoch].add(t)


def _epoch(cuts: list[int], step: int) -> int:
    return next(place for place, (start, end) in enumerate(pairwise(cuts)) if start <= step < end)


def _run(seed: int, *, sums: bool) -> tuple[RandomRun, np.random.Generator]:
    random = np.random.default_rng(seed)
    n, m = (int(random.integers(1, 4)) for _ in range(2))
    d = int(random.integers(1, 5))
    dv = int(random.integers(1, d + 1))
    keep = float(random.choice([0.0, 0.5, 1.0]))
    fast_words = int(random.integers(6, 24))
    return RandomRun(n, m, d, dv, fast_words, random, keep=keep, sums=sums).play(), random


@pytest.mark.parametrize("sums", [False, True])
def test_what_epochs_grant_a_pair_is_what_its_products_and_its_term_weigh(sums: bool) -> None:
    moved = 0
    for seed in range(150):
        run, random = _run(seed, sums=sums)
        d, dv, both = run.d, run.dv, run.d + run.dv
        for _ in range(4):
            some = random.integers(1, len(run.steps), int(random.integers(1, 12)))
            cuts = sorted({0, len(run.steps), *(int(step) for step in some)})
            cut = Cut(run, cuts)
            for pair in ((i, j) for i in range(run.n) for j in range(run.m)):
                granted = 0.0
                raw = 0.0
                for epoch in range(len(cuts) - 1):
                    words, u = cut.flowing[pair][epoch], cut.products[pair][epoch]
                    t, term = len(cut.factors[pair][epoch]), min(cut.terms[pair][epoch], 1)
                    if not words:
                        granted += (t + u + term) * (t + u)
                    else:
                        line = 2 * both + 1 if sums else 2 * both
                        granted += line * (t + u) - (t + u) ** 2 + both * term + (words - 1) * d * d
                        raw += both * both * u / dv
                weight = both * both + (both if sums and run.m > 1 else 0)
                assert granted >= weight
                moved += raw > 0
    assert moved > 300


def _parts(total: int, random: np.random.Generator) -> list[int]:
    """A number as a sum of a few."""
    found = []
    while total:
        found.append(int(random.integers(1, total + 1)))
        total -= found[-1]
    return found


@pytest.mark.parametrize("sums", [0, 1])
def test_no_history_of_a_pair_is_granted_less_however_its_products_are_spread(sums: int) -> None:
    """Parts of a score that begin in several epochs, are joined in others and used in more."""
    random = np.random.default_rng(7)
    for _ in range(4000):
        d = int(random.integers(1, 12))
        dv = int(random.integers(1, d + 1))
        both = d + dv
        begun = _parts(d - int(random.integers(0, d + 1)), random)
        rest = _parts(d - sum(begun), random)
        used = _parts(dv, random)
        epochs = [(1, t, 0) for t in rest]
        for u in used:  # beside products of the score, or in an epoch of its own
            place = int(random.integers(0, len(epochs) + 1))
            if place < len(epochs) and not epochs[place][2] and random.random() < 0.5:
                epochs[place] = (1, epochs[place][1], u)
            else:
                epochs.append((1, 0, u))
        alone = len(begun) == 1 and begun[0] == d
        early = int(sums and alone and random.random() < 0.5)  # the term, where the score was begun and done
        line = 2 * both + sums
        granted = sum(t * (t + early) for t in begun)
        granted += sum(line * (t + u) - (t + u) ** 2 for _, t, u in epochs) + both * (sums - early)
        granted += max(len(begun) - 1, 0) * d * d  # words that flow in beside others of their pair
        assert granted >= both * both + both * sums
    for d in range(1, 30):  # made and used in one epoch, and used in others
        for dv in range(1, d + 1):
            for u in range(1, dv + 1):
                for _ in range(3):
                    elsewhere, both = _parts(dv - u, random), d + dv
                    granted = (d + u + sums) * (d + u)
                    granted += sum((2 * both + sums) * each - each**2 for each in elsewhere)
                    assert granted >= both * both + both * sums


@laws
@given(
    st.integers(1, 200),
    st.floats(0.0, 1.0),
    st.floats(1.0, 60.0),
    *3 * [st.floats(0.0, 1.0)],
    st.booleans(),
    st.floats(1.0, 40.0),
)
def test_no_split_between_fresh_and_held_pairs_and_further_words_does_more(
    d: int, narrow: float, squares: float, words: float, share: float, pairs: float, sums: bool, times: float
) -> None:
    dv = max(1, round(narrow * d))
    budget, both = squares * d * d, d + dv
    line, term = (2 * both + 1, both) if sums else (2 * both, 0)
    x = words * budget
    area = (budget - x) ** 2 / 4
    h, held = share * area, pairs * x
    of_held = line * (held * h) ** 0.5 - h + term * held + d * d * (x - held)
    most = float(most_by_held_pairs(float(budget), float(d), float(dv), sums=sums))
    assert area - h + times * of_held <= max(budget**2 / 4, times * most) * (1 + 1e-9)


@laws
@given(st.integers(1, 300), st.integers(1, 300), st.floats(-3, 20), st.booleans())
def test_arrays_have_the_same_digits_and_it_grows_with_the_words(d: int, dv: int, size: float, sums: bool) -> None:
    budget = 2.0**size * d
    alone = most_by_held_pairs(budget, float(d), float(dv), sums=sums)
    array = most_by_held_pairs(np.array([budget, 2 * budget]), float(d), float(dv), sums=sums)
    assert array[0] == alone
    assert array[1] >= alone


@laws
@given(st.integers(1, 300), st.floats(0.0, 1.0), st.floats(1.0, 20.0), st.booleans())
def test_the_words_for_so_much_are_few_too_few(d: int, narrow: float, squares: float, sums: bool) -> None:
    dv = float(max(1, round(narrow * d)))
    budget = squares * (d + dv) ** 2 / 4
    work = float(most_by_held_pairs(budget, float(d), dv, sums=sums))
    words = float(words_for_held_pairs(work, float(d), dv, sums=sums))
    assert 2 * work**0.5 < budget or 0.999999 * budget <= words <= budget or d * d * budget * 1.1 > work
    assert not words or most_by_held_pairs(words, float(d), dv, sums=sums) <= work
