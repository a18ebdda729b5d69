"""Held scores: boxes of all epochs with fresh pairs, the lemmas on random runs, and the bound beside plans."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for
from attenio.bounds.fused_epochs import fused_epochs
from attenio.bounds.held_scores import (
    BEYOND,
    FIRST,
    LONGER,
    Longer,
    held_score_words,
    held_scores,
    held_words_at_edges,
    work_of_epoch,
)
from attenio.bounds.mask_edges import edges_of
from attenio.bounds.recomputed_scores import recomputed_scores
from attenio.dataflows import execute
from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for
from attenio.workload import Workload

from .boxes_of_epochs import does_no_more, longer_does_no_more, most_in_longer
from .random_runs import Effective, RandomRun, effective_products
from .under_masks import moves_no_less, windowed
from .watched_runs import Watched, begun

laws = settings(max_examples=26, deadline=None, derandomize=True)
TWICE, SHORTER = (0.5, 3.0), (0.7, 2.8)  # fast memory in d², and the words of an epoch over it


def test_no_epoch_with_fresh_pairs_does_more() -> None:
    assert does_no_more(TWICE, 1.0, 1.125, affine=True)
    assert does_no_more(SHORTER, 1.0, 1.045, affine=False)


EIGHTHS = [
    (epoch, eighths / 8)
    for epoch in LONGER
    for eighths in range(int(epoch.eighths), 1 + (int(epoch.eighths) if epoch.least else 8))
]
UNPAID = [(epoch, more) for epoch, more in EIGHTHS if not epoch.least]


@pytest.mark.parametrize(("epoch", "more"), UNPAID)
def test_no_longer_epoch_with_fresh_pairs_does_more(epoch: Longer, more: float) -> None:
    assert longer_does_no_more(epoch, more)


@pytest.mark.parametrize(("epoch", "more"), UNPAID)
def test_boxes_hold_epochs_with_fewer_pairs_than_edges_may_be_worth(epoch: Longer, more: float) -> None:
    random, budget = np.random.default_rng(0), epoch.most * epoch.budget
    z = epoch.beyond * epoch.most * random.random(1000)
    f, first = (limit * random.random(1000) for limit in (budget / 3, epoch.most))
    w = 2 * f + (budget - z - 2 * f) * random.random(1000)
    boxes = np.array([[each, each * 1.001 + 1e-9] for each in (z, f, w, first)])
    values = budget - z - w
    outputs = np.sqrt(z + f**2 + more * (np.minimum(z, epoch.most - first) + f**2))
    outputs = outputs * np.sqrt(values / 2 * np.minimum(first + (values / 2 - first) / 2, values / 2))
    work = np.minimum(w**2 / 4, z) + np.where(first <= values / 2, outputs, 0)
    assert (work <= most_in_longer(boxes, epoch, more) + 1e-12).all()


@pytest.mark.parametrize(("epoch", "more"), EIGHTHS)
def test_no_longer_epoch_without_fresh_pairs_does_more(epoch: Longer, more: float) -> None:
    pairs = np.linspace(1e-4, epoch.budget, 40_000)
    values = (epoch.budget - pairs) / 2
    most = np.zeros_like(pairs)
    # the work is affine in outputs at their first stay, then in those there at first, but for a maximum at a half
    for first in (0 * pairs, np.minimum(1 / 2, values), np.minimum(np.maximum(1 - pairs, 0), values), values):
        held = np.minimum(pairs, np.maximum(1 - first, 0))
        for new in (0 * pairs, np.maximum(values - first, 0)):
            outputs = np.minimum(first, 1) + new
            work = values * np.sqrt(pairs) + more * (outputs * held / (2 * np.sqrt(pairs)) - FIRST * new)
            most = np.maximum(most, work)
    assert most.max() <= epoch.slack * work_of_epoch(more, epoch.budget) - 1e-4


@laws
@given(st.sampled_from(UNPAID), st.floats(0.01, 1.0), st.floats(0.0, 1.0), st.integers(0, 10**6))
def test_no_longer_epoch_that_is_sought_uphill_does_more(
    case: tuple[Longer, float], share: float, worth: float, seed: int
) -> None:
    (epoch, more), random = case, np.random.default_rng(seed)
    memory, best = share * epoch.most, 0.0
    beyond, budget = worth * epoch.beyond * memory, epoch.budget * memory
    parts = random.dirichlet(np.full(7, 0.5), 4000)
    for step in range(14):
        z, full, other, values, first, later, new = parts.T * budget
        w, fresh, pairs = full + other, (full / 2) ** 2, np.maximum(z - beyond, 0)
        area = w**2 / 4
        column = np.sqrt((np.minimum(pairs, area) + beyond) * area)
        column = np.where(area <= z, column, pairs + np.sqrt(beyond * np.maximum(area - pairs, 0)))
        held = np.minimum(z, memory - first) + fresh
        outputs = np.sqrt(np.maximum(z + fresh + more * held, 0)) * np.sqrt(values * (first + new + later / 2))
        work = column + outputs - FIRST * more * np.sqrt(memory) * new
        work = np.where((first <= memory) & (z >= beyond), work, 0.0)
        best = max(best, work.max())
        near = parts[np.argsort(work)[-40:]].repeat(100, axis=0)
        near *= np.exp(random.normal(0, 0.5 * 0.7**step, near.shape))
        parts = near / near.sum(axis=1, keepdims=True)
    granted = epoch.slack * work_of_epoch(more, epoch.budget) * memory**1.5
    assert 0.8 * granted <= best <= granted * (1 + 1e-12)


@laws
@given(st.sampled_from([TWICE, SHORTER]), st.floats(0.01, 1.0), st.integers(0, 10**6))
def test_no_epoch_that_is_sought_uphill_does_more(case: tuple[float, float], share: float, seed: int) -> None:
    random, memory = np.random.default_rng(seed), share * case[0]
    budget, best = case[1] * memory, 0.0
    more = float(random.random()) if case is TWICE else 1.0
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
    granted = work_of_epoch(more) if case is TWICE else 1.045
    assert 0.9 * granted * memory**1.5 <= best <= granted * memory**1.5 * (1 + 1e-12)


def test_the_work_of_an_epoch_without_fresh_pairs_is_the_most_over_pairs_and_first_outputs() -> None:
    pairs, first = np.meshgrid(np.linspace(1e-3, 3, 2000), np.linspace(0, 1, 501))
    for more in np.linspace(0, 1, 9):
        work = (3 - pairs) * np.sqrt(pairs) / 2 + more * first * np.minimum(pairs, 1 - first) / (2 * np.sqrt(pairs))
        assert work.max() == pytest.approx(work_of_epoch(float(more)), rel=1e-5)
        assert 1 + more / 8 <= work_of_epoch(float(more)) + 1e-12
    shorter = (2.8 - pairs) * np.sqrt(pairs) / 2 + first * np.minimum(pairs, 1 - first) / (2 * np.sqrt(pairs))
    assert shorter.max() < 1.045


Pairs = set[tuple[int, int]]


def _words_and_products(
    steps: Watched, found: Effective
) -> tuple[dict[tuple[int, int], set[int]], dict[tuple[int, int], list[int]]]:
    """The words of every pair, and the steps of the products of the score that its first output uses."""
    words_of: dict[tuple[int, int], set[int]] = {}
    for _, word in steps:
        if word.name[0] == "s":
            words_of.setdefault(word.name[1:3], set()).add(id(word))
    scores: dict[tuple[int, int], list[int]] = {}
    for (i, j, c), step in found.scores:
        if c == 0:
            scores.setdefault((i, j), []).append(step)
    return words_of, scores


@pytest.mark.parametrize("seed", range(60))
def test_no_random_run_has_more_words_or_does_more_than_the_lemmas_say(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, m, d, dv, fast_words = (int(random.integers(low, high)) for low, high in [(1, 5)] * 2 + [(1, 4)] * 2 + [(5, 24)])
    run = RandomRun(n, m, d, dv, fast_words, random, keep=float(random.choice([0.0, 0.3, 0.9])))
    run.steps = steps = Watched(run)
    found = effective_products(run.play())
    words_of, scores = _words_and_products(steps, found)
    moved = {pair: [done for done, word in steps if id(word) in ids] for pair, ids in words_of.items()}
    held = {pair for pair, all_done in moved.items() if "store" not in all_done}
    clock, stays, first_stays = np.zeros(len(steps) + 1), {}, {}
    without_first = np.zeros(len(steps) + 1)
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
        first_stays[key] = starts[0]
        without_first[starts[0] + 1 :] -= 1
        for start in starts:
            clock[start + 1 :] += 1
        for (made, word), end in zip(chain, [*(made for made, _ in chain[1:]), len(steps)], strict=True):
            clock[made + 1 : min([step for step in word.slow if step < end], default=end) + 1] += 1
    assert 0 <= np.diff(clock).min() <= np.diff(clock).max() <= 2
    moved_words = sum(done != "make" for done, _ in steps)
    assert clock[-1] <= moved_words + len(held) + n * dv
    without_first += clock
    assert 0 <= np.diff(without_first).min() <= np.diff(without_first).max() <= 2
    assert without_first[-1] <= moved_words + len(held)
    window = int(random.integers(2, 5))
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
        free = sum(start <= first_stays[key] < end for key in outputs - first)
        budget = (fast_words if start else 0) + without_first[end] - without_first[start]
        assert len(entries) + len(pairs) + 2 * len(outputs) - len(first) - free <= budget
        _check_weights(run, (made, products, held), (pairs, fresh, entries, outputs), (window, more))


def _check_weights(
    run: RandomRun,
    done: tuple[list[tuple[int, int]], list[tuple[int, int]], Pairs],
    there: tuple[Pairs, Pairs, set[tuple[object, ...]], Pairs],
    kind: tuple[int, float],
) -> None:
    """That pairs of a window alone, with weights at its edges, weigh no more than their words allow."""
    (made, products, held), (pairs, fresh, entries, outputs), (window, more) = done, there, kind
    for weight in (0.0, 0.5, 2.0):

        def weigh(pair: tuple[int, int], weight: float = weight) -> float:
            after = pair[0] - pair[1]
            edges = (after == 0) + (after == window - 1)
            return float(0 <= after < window) * (1 - (1 - np.sqrt(0.5)) * edges + weight * edges)

        beyond, few = 4 * weight**2, sum(weigh(pair) > 0 for pair in pairs)
        most = 0.0
        for t in range(run.d):
            area = sum(name[0] in "qk" and name[3] == t for name in entries) ** 2 / 4
            some = np.sqrt((min(few, area) + beyond) * area)
            most += some if area <= few + beyond else few + np.sqrt(beyond * (area - few))
        assert sum(map(weigh, made)) <= most + 1e-9
        here = {pair for pair in products if weigh(pair) > 0}
        square = few + len({pair for pair in fresh - pairs if weigh(pair) > 0}) + more * len(here & held)
        sides = np.sqrt(sum(name[0] == "v" for name in entries) * len(outputs))
        work = sum(weigh(pair) * np.sqrt(1 + more * (pair in held)) for pair in products)
        assert work <= np.sqrt(square + (1 + more) * beyond) * sides + 1e-9


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
@given(windowed(shortest=-3, longest=0), st.floats(-6, -1))
def test_no_plan_under_a_mask_moves_less(workload: Workload, memory: float) -> None:
    moves_no_less(workload, max(3, round(workload.d**2 * 2.0**memory)), "held-scores")


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
        for share in (1 / 16, 1 / 4, 1 / 2, 0.7, 1):
            fast_words = int(share * d * d)
            others = max(bound(workload, fast_words).words for bound in (fused_epochs, recomputed_scores))
            (bound,) = held_scores(workload, fast_words)
            assert 1.02 * others < bound.words < 1.12 * others
        assert "held-scores" not in {bound.theorem for bound in bounds_for(workload, int(1.01 * d * d))}
        assert "held-scores" not in {bound.theorem for bound in bounds_for(workload, d * d // 2, units=2)}


def test_arrays_say_what_floats_say() -> None:
    sizes = (4.0, 16.0, 64.0), (1.0, 8.0, 300.0), (1.0, 2.0, 3.0, 8.0, 100.0, 128.0, 170.0, 2048.0, 2867.0, 1e5)
    points = list(product((1e3, 1e9), (1.0, 5e3), *sizes))
    assert held_score_words(*np.array(points).T).tolist() == [held_score_words(*point) for point in points]


@laws
@given(st.integers(2**9, 2**13), st.integers(32, 128), st.floats(0.1, 0.5), st.floats(0.1, 1.0))
def test_with_edges_it_is_the_least_over_how_many_scores_are_held(n: int, d: int, share: float, part: float) -> None:
    fast_words = int(share * d * d)
    edges = edges_of(Workload(n=n, d=d, mask=f"window:{max(2, int(part * n / 2))}"))
    assert edges is not None
    corner = 2 * edges.count
    best = (fast_words + 1) * edges.length / (corner * (edges.scores - 0.3 * edges.length))
    worth = min(best, np.sqrt(BEYOND * fast_words / corner))
    beyond = corner * worth**2
    at, room, apart = edges.length, fast_words + beyond, edges.scores - edges.length
    heavy = np.sqrt(0.5) + worth
    nearly, most = 0.0, 0.0
    said: dict[Longer, list[np.ndarray]] = {}
    for epoch, more in EIGHTHS:
        if not 0.999 * epoch.least <= room / (d * d) <= 1.001 * epoch.most or beyond > 1.001 * epoch.beyond * room:
            continue
        length = epoch.budget * room - beyond - fast_words
        weight = np.sqrt(1 + more)
        rate = length / (epoch.slack * work_of_epoch(more, epoch.budget) * room**1.5 + weight * max(1, heavy))
        lost = rate * FIRST * more * np.sqrt(room) * edges.rows * d + length - fast_words
        gains = rate * d * (weight - 1) * np.array([1, heavy])
        said.setdefault(epoch, []).append(np.array([rate * 2 * d * (apart + heavy * at) - lost, *gains]))
    for epoch, ways in said.items():  # with none held of either kind or all, by means of what two weights say
        for share, (light, heavier) in product(np.linspace(0, 1, 101), pairwise([*ways, ways[-1]])):
            moved, *gains = (1 - share) * light + share * heavier
            words = min(
                moved - sum(w * s * (1 - g) for w, s, g in zip(hold, (apart, at), gains, strict=True))
                for hold in product((0, 1), repeat=2)
            )
            most = max(most, words)
            inside = 1.01 * epoch.least * d * d < room < 0.99 * epoch.most * d * d
            nearly = max(nearly, words if inside and epoch.beyond else 0)
    assert nearly * 0.95 - 1000 <= held_words_at_edges(edges, (1.0 * d, 1.0 * d, 1.0 * fast_words)) <= most * 1.001 + 1


def test_edges_of_arrays_say_what_floats_say() -> None:
    for mask, n in (("causal", 1024), ("window:64", 1024), ("window:512", 8192)):
        for d, fast_words in ((16, 51), (64, 819), (128, 5734), (128, 8192), (128, 20_000)):
            edges = edges_of(Workload(n=n, d=d, mask=mask))
            assert edges is not None
            sizes = float(d), float(d), float(fast_words)
            alone = held_words_at_edges(edges, sizes)
            assert held_words_at_edges(edges, tuple(np.array([size, size]) for size in sizes)).tolist() == [alone] * 2
