"""Held scores: boxes of all epochs with fresh pairs, the lemmas on random runs, and the bound beside plans."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attenio.bounds import bounds_for
from attenio.bounds.fused_epochs import fused_epochs
from attenio.bounds.held_scores import held_score_words, held_scores, work_of_epoch
from attenio.bounds.recomputed_scores import recomputed_scores
from attenio.dataflows import execute
from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for
from attenio.workload import Workload

from .random_runs import RandomRun, Word, effective_products

laws = settings(max_examples=26, deadline=None, derandomize=True)
Floats = NDArray[np.float64]
LONGER, SHORTER = (0.5, 3.0), (0.7, 2.8)  # fast memory in d², and the words of an epoch over it


def of_values(y: Floats, first: Floats) -> Floats:
    """The root of the most outputs times values in y words, if so many outputs cost one word and the others two."""
    between = np.sqrt(np.maximum(y - first, 0) * first)
    return np.where(y >= 3 * first, (y + first) / np.sqrt(8), np.where(y >= 2 * first, between, y / 2))


def most_in(boxes: Floats, memory: float, budget: float, more: float, *, affine: bool) -> Floats:
    """No epoch with its pairs, its fresh pairs, the words of a column and its first outputs in a box does more.

    Words are in d², those of a column in d. Beyond what makes a product of scores for every pair they go to values.
    """
    (z, most_z), (f, most_f), (w, most_w), (first, most_first) = boxes
    w = np.maximum(w, 2 * f)
    y = np.maximum(budget - z - w, 0)
    sides, most_sides, v = np.sqrt(z), np.sqrt(most_z), most_z + most_f**2
    chord = np.minimum(most_w, 2 * most_sides) * (most_sides + f) / 2 - f * most_sides
    few = np.minimum(chord, most_z) + np.sqrt(v) * np.maximum(most_w - 2 * sides, 0) / 2
    many = most_z + np.sqrt(v) * np.maximum(most_w - 2 * f, 0) / 2
    scores = np.where(most_f <= sides, few, np.where(f >= most_sides, many, np.maximum(few, many)))
    held = np.minimum(most_z, memory - first) + most_f**2
    if affine:
        share = np.minimum(held / (2 * np.sqrt(np.maximum(z + f**2, 1e-300))), np.sqrt(v) / 2)
        outputs = np.sqrt(v) * y / 2 + more * np.minimum(most_first, y / 2) * share
    else:
        outputs = np.sqrt(v + more * held) * of_values(y, most_first)
    proved = (z + 2 * sides >= budget) & (most_f <= sides)
    none = (most_w < 2 * f) | (z + w > budget)
    return np.where(proved | none, 0.0, scores + outputs)


def does_no_more(case: tuple[float, float], more: float, granted: float, *, affine: bool) -> bool:
    """Whether boxes, cut in two in every direction as long as they may do more, all do no more in the end."""
    memory, budget = case[0], case[1] * case[0]
    boxes = np.array([[0, budget], [0, budget / 2], [0, budget], [0, memory]])[:, :, None]
    while boxes.shape[2]:
        if boxes.shape[2] > 2**21:
            return False
        boxes = boxes[:, :, most_in(boxes, memory, budget, more, affine=affine) > granted * memory**1.5]
        for axis in range(4):
            middle, low, high = boxes[axis].mean(axis=0), boxes.copy(), boxes.copy()
            low[axis, 1], high[axis, 0] = middle, middle
            boxes = np.concatenate((low, high), axis=2)
    return True


def test_no_epoch_with_fresh_pairs_does_more() -> None:
    assert does_no_more(LONGER, 1.0, 1.125, affine=True)
    assert does_no_more(SHORTER, 1.0, 1.045, affine=False)


@laws
@given(st.sampled_from([LONGER, SHORTER]), st.floats(0.01, 1.0), st.integers(0, 10**6))
def test_no_epoch_that_is_sought_uphill_does_more(case: tuple[float, float], share: float, seed: int) -> None:
    random, memory = np.random.default_rng(seed), share * case[0]
    budget, best = case[1] * memory, 0.0
    more = float(random.random()) if case is LONGER else 1.0
    parts = random.dirichlet(np.full(6, 0.5), 4000)
    for step in range(14):
        pairs, full, other, values, first, later = parts.T * budget
        fits = first <= memory
        fresh = (full / 2) ** 2
        held = np.minimum(pairs, memory - first) + fresh
        scores = np.minimum(pairs, (full + other) ** 2 / 4)
        outputs = np.sqrt(np.maximum(pairs + fresh + more * held, 0)) * np.sqrt(values * (first + later / 2))
        work = np.where(fits, scores + outputs, 0.0)
        best = max(best, work.max())
        near = parts[np.argsort(work)[-40:]].repeat(100, axis=0)
        near *= np.exp(random.normal(0, 0.5 * 0.7**step, near.shape))
        parts = near / near.sum(axis=1, keepdims=True)
    granted = work_of_epoch(more) if case is LONGER else 1.045
    assert 0.9 * granted * memory**1.5 <= best <= granted * memory**1.5 * (1 + 1e-12)


def test_the_work_of_an_epoch_without_fresh_pairs_is_the_most_over_pairs_and_first_outputs() -> None:
    pairs, first = np.meshgrid(np.linspace(1e-3, 3, 2000), np.linspace(0, 1, 501))
    for more in np.linspace(0, 1, 9):
        work = (3 - pairs) * np.sqrt(pairs) / 2 + more * first * np.minimum(pairs, 1 - first) / (2 * np.sqrt(pairs))
        assert work.max() == pytest.approx(work_of_epoch(float(more)), rel=1e-5)
        assert 1 + more / 8 <= work_of_epoch(float(more)) + 1e-12
    shorter = (2.8 - pairs) * np.sqrt(pairs) / 2 + first * np.minimum(pairs, 1 - first) / (2 * np.sqrt(pairs))
    assert shorter.max() < 1.045


class Watched(list[tuple[str, Word]]):
    """Steps of a run, with the words in fast memory after each and those that were there from the step before."""

    def __init__(self, run: RandomRun) -> None:
        self.run = run
        self.after: list[set[int]] = []
        self.stayed: list[set[int]] = []

    def append(self, step: tuple[str, Word]) -> None:
        super().append(step)
        done, word = step
        fast = {id(each) for each in self.run.fast}
        before = fast | {id(parent) for parent in word.parents} if done == "make" else fast
        self.stayed.append((before - ({id(word)} if done != "store" else set())) & (self.after or [set()])[-1])
        self.after.append(fast | {id(word)})


def begun(steps: Watched, words: set[int]) -> list[int]:
    """The steps at which a stay of some words begins."""
    return [step for step, here in enumerate(steps.after) if here & words and not steps.stayed[step] & words]


@pytest.mark.parametrize("seed", range(60))
def test_no_random_run_has_more_words_or_does_more_than_the_lemmas_say(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, m, d, dv, fast_words = (int(random.integers(low, high)) for low, high in [(1, 5)] * 2 + [(1, 4)] * 2 + [(5, 24)])
    run = RandomRun(n, m, d, dv, fast_words, random, keep=float(random.choice([0.0, 0.3, 0.9])))
    run.steps = steps = Watched(run)
    found = effective_products(run.play())
    words_of: dict[tuple[int, int], set[int]] = {}
    for _, word in steps:
        if word.name[0] == "s":
            words_of.setdefault(word.name[1:3], set()).add(id(word))
    scores: dict[tuple[int, int], list[int]] = {}
    for (i, j, c), step in found.scores:
        if c == 0:
            scores.setdefault((i, j), []).append(step)
    moved = {pair: [done for done, word in steps if id(word) in ids] for pair, ids in words_of.items()}
    held = {pair for pair, all_done in moved.items() if "store" not in all_done}
    clock, stays = np.zeros(len(steps) + 1), {}
    for step, (done, word) in enumerate(steps):
        clock[step + 1 :] += (done == "load" and word.name[0] in "qkv") + (done == "store" and word.name[0] == "o")
    for pair, ids in words_of.items():
        starts = [*begun(steps, ids), len(steps)]
        loads = [step for step, (done, word) in enumerate(steps) if done == "load" and id(word) in ids]
        stays[pair] = []  # the step from which on each of them counts, if it does
        for start, stop in pairwise(starts):
            made_here = steps[start][0] == "make" and any(start <= step < stop for step in scores[pair])
            counts_from = [start] if made_here else [step for step in loads if start <= step < stop]
            stays[pair] += counts_from[:1]
        assert len(stays[pair]) <= sum(done != "make" for done in moved[pair]) + (pair in held)
        for start in stays[pair]:
            clock[start + 1 :] += 1
    for key, chain in found.chains.items():
        starts = begun(steps, {id(word) for _, word in chain})
        assert len(starts) - 1 <= sum(done == "load" and ("o", key[0], 0, key[1]) == word.name for done, word in steps)
        for start in starts:
            clock[start + 1 :] += 1
        for (made, word), end in zip(chain, [*(made for made, _ in chain[1:]), len(steps)], strict=True):
            clock[made + 1 : min([step for step in word.slow if step < end], default=end) + 1] += 1
    assert 0 <= np.diff(clock).min() <= np.diff(clock).max() <= 2
    assert clock[-1] <= sum(done != "make" for done, _ in steps) + len(held) + n * dv
    for _ in range(20):
        start, end = sorted(int(step) for step in random.integers(0, len(steps) + 1, 2))
        budget = (fast_words if start else 0) + clock[end] - clock[start]
        entries, _ = run.flowing_in(start, end)
        there = steps.after[start - 1] & steps.stayed[start] if 0 < start < len(steps) else set()
        pairs = {pair for pair, ids in words_of.items() if ids & there}
        pairs |= {pair for pair, all_starts in stays.items() if any(start <= step < end for step in all_starts)}
        outputs = {(i, c) for (i, _, c), step in found.outputs if start <= step < end}
        first = {key for key in outputs if {id(word) for _, word in found.chains[key]} & there}
        assert len(entries) + len(pairs) + 2 * len(outputs) - len(first) <= budget
        products = [(i, j) for (i, j, _), step in found.outputs if start <= step < end]
        full = [
            [k for k in range(n if kind == "q" else m) if all((kind, k, 0, t) in entries for t in range(d))]
            for kind in "qk"
        ]
        fresh = set(product(*full))
        assert set(products) <= pairs | fresh
        here = set(products) & held
        assert len(here) <= min(len(pairs), fast_words - len(first)) + len(fresh)
        values = sum(name[0] == "v" for name in entries)
        more = float(random.random())
        work = len(products) + (np.sqrt(1 + more) - 1) * sum(pair in held for pair in products)
        assert work <= np.sqrt((len(set(products)) + more * len(here)) * values * len(outputs)) + 1e-9
        made = [pair for pair, all_steps in scores.items() for step in all_steps if start <= step < end]
        assert set(made) <= pairs


@laws
@given(st.data(), st.sampled_from(["dense", "causal", "window:3"]), st.integers(3, 40))
def test_no_plan_moves_less(data: st.DataObject, mask: str, fast_words: int) -> None:
    d, dv = (data.draw(st.integers(2, 24)) for _ in range(2))
    workload = Workload(n=data.draw(st.integers(3, 40)), d=d, value_dim=dv, mask=mask)
    try:
        plan = best_plan_for(workload, fast_words)
    except DoesNotFit:
        return
    for bound in held_scores(workload, fast_words):
        assert bound.words <= execute(plan).moved_words == plan.moved_words


@laws
@given(
    st.integers(2**10, 10**6), st.integers(8, 256), st.integers(1, 512), st.floats(0.01, 0.5), st.floats(1.0, 2**0.5)
)
def test_it_says_about_as_much_as_any_weight(n: int, d: int, dv: int, share: float, weight: float) -> None:
    fast_words = max(1, int(share * d * d))
    scores, length = n * n, 2 * fast_words - 1
    epochs = length / (fast_words**1.5 * work_of_epoch(weight * weight - 1)) * scores
    lost = n * dv + length - fast_words
    stated = min(epochs * (d + dv), epochs * (d + weight * dv) - scores) - lost
    (bound,) = held_scores(Workload(n=n, d=d, value_dim=dv), fast_words)
    assert bound.words >= stated * (1 - 0.02) - 1


def test_it_is_ahead_in_the_middle_and_silent_in_larger_memories() -> None:
    for n, d in ((8192, 64), (8192, 128)):
        workload = Workload(n=n, d=d)
        for share in (1 / 16, 1 / 4, 1 / 2, 0.7):
            fast_words = int(share * d * d)
            others = max(bound(workload, fast_words).words for bound in (fused_epochs, recomputed_scores))
            (bound,) = held_scores(workload, fast_words)
            assert 1.02 * others < bound.words < 1.1 * others
        assert "held-scores" not in {bound.theorem for bound in bounds_for(workload, int(0.71 * d * d))}
        assert "held-scores" not in {bound.theorem for bound in bounds_for(workload, d * d // 2, units=2)}


def test_arrays_say_what_floats_say() -> None:
    sizes = (4.0, 16.0, 64.0), (1.0, 8.0, 300.0), (1.0, 2.0, 3.0, 8.0, 100.0, 128.0, 170.0, 2048.0, 2867.0, 1e5)
    points = list(product((1e3, 1e9), (1.0, 5e3), *sizes))
    assert held_score_words(*np.array(points).T).tolist() == [held_score_words(*point) for point in points]
