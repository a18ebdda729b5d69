"""Held scores in larger memories: scores that are made again are paid for, in boxes of epochs and on random runs."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds.held_scores import FIRST, LONGER, Longer, held_score_words, held_scores, work_of_epoch
from attenio.bounds.recomputed_scores import recomputed_scores
from attenio.dataflows import execute
from attenio.errors import DoesNotFit
from attenio.planning import best_plan_for
from attenio.workload import Workload

from .boxes_of_epochs import most_in_paid, paid_does_no_more
from .random_runs import Effective, RandomRun, effective_products
from .watched_runs import Watched, begun

laws = settings(max_examples=26, deadline=None, derandomize=True)
PAID = [epoch for epoch in LONGER if epoch.least]
# Memories of an epoch that boxes cover together, over the largest it serves for.
CUTS = (1, 0.992, 0.97, 0.92, 0.82, 0.7)

Pair = tuple[int, int]


def parts(epoch: Longer) -> list[tuple[float, float]]:
    """Fast memories from and to which boxes cover epochs, in d²."""
    cuts = [epoch.most * cut for cut in CUTS if epoch.most * cut > epoch.least]
    return list(pairwise(sorted([*cuts, epoch.least])))


@pytest.mark.parametrize(("epoch", "part"), [(epoch, part) for epoch in PAID for part in parts(epoch)])
def test_no_epoch_that_pays_for_fresh_pairs_does_more(epoch: Longer, part: tuple[float, float]) -> None:
    assert paid_does_no_more(epoch, part, epoch.eighths / 8)


def work_of(parts: np.ndarray, epoch: Longer, sizes: tuple[float, float, float]) -> np.ndarray:
    """What epochs do: ``parts`` of their words, ``sizes`` fast memory in d², what edges are worth, and dv over d."""
    (memory, beyond, wide), more = sizes, epoch.eighths / 8
    others, paid, full, rest, values, first, later, new = parts.T * epoch.budget * memory
    fresh, z = (full / 2) ** 2, others + paid
    paid, area = np.minimum(paid, fresh), (full + rest) ** 2 / 4
    pairs = np.maximum(z - beyond, 0)

    def column(area: np.ndarray) -> np.ndarray:
        some = np.sqrt((np.minimum(pairs, area) + beyond) * area)
        return np.where(area <= z, some, pairs + np.sqrt(beyond * np.maximum(area - pairs, 0)))

    # columns have no more words than fresh pairs take, or make all products
    share = np.clip(rest / np.maximum(2 * np.sqrt(pairs) - full, 1e-12), 0, 1)
    mixed = np.where(pairs > fresh, share * column(pairs) + (1 - share) * column(fresh), 0)
    scores = np.maximum(column(area), mixed)
    rows = np.sqrt(others + more * np.minimum(others, np.maximum(memory - first, 0)))
    heavy = np.sqrt((1 + more) * fresh)
    sides = np.sqrt(values * (first + new + later / 2))
    least = np.minimum(paid * wide * np.sqrt(1 + more), heavy * sides * heavy / np.sqrt(rows**2 + heavy**2 + 1e-300))
    left = np.sqrt(np.maximum(sides**2 - (least / np.maximum(heavy, 1e-12)) ** 2, 0))
    work = scores + rows * left + least - FIRST * more * np.sqrt(memory) * new
    return np.where((first <= memory) & (others >= beyond), work, 0.0)


@laws
@given(st.sampled_from(PAID), *[st.floats(0.0, 1.0)] * 3, st.integers(0, 10**6))
def test_no_paid_epoch_that_is_sought_uphill_does_more(
    epoch: Longer, share: float, worth: float, wide: float, seed: int
) -> None:
    random, memory, best = np.random.default_rng(seed), epoch.least + share * (epoch.most - epoch.least), 0.0
    found = random.dirichlet(np.full(8, 0.5), 8000)
    for step in range(16):
        work = work_of(found, epoch, (memory, worth * epoch.beyond * memory, wide * epoch.wide))
        best = max(best, work.max())
        near = found[np.argsort(work)[-80:]].repeat(100, axis=0)
        near *= np.exp(random.normal(0, 0.5 * 0.75**step, near.shape))
        found = near / near.sum(axis=1, keepdims=True)
    granted = epoch.slack * work_of_epoch(epoch.eighths / 8, epoch.budget) * memory**1.5
    assert 0.9 * granted <= best <= granted * (1 + 1e-12)


@pytest.mark.parametrize("epoch", PAID)
def test_boxes_hold_their_epochs(epoch: Longer) -> None:
    random, beyond = np.random.default_rng(0), epoch.beyond * epoch.most
    found = random.dirichlet(np.full(8, 0.5), 4000)
    found[:, 3] = 0
    work = work_of(found, epoch, (epoch.most, beyond, epoch.wide))
    others, paid, full, _, _, first, _, _ = found.T * epoch.budget * epoch.most
    inside = (others >= beyond) & (first <= epoch.most) & (paid <= full**2 / 4)
    each = (others + paid, full / 2, full, first, paid)
    boxes = np.array([[value * 0.999, value * 1.001 + 1e-9] for value in each])[:, :, inside]
    most = most_in_paid(boxes, epoch, (epoch.most, epoch.most), epoch.eighths / 8)
    granted = epoch.slack * work_of_epoch(epoch.eighths / 8, epoch.budget) * epoch.most**1.5
    assert (work[inside] <= np.where(most > 0, most, granted) + 1e-9).all()


def shares_of(steps: Watched, found: Effective, dv: int) -> dict[Pair, list[tuple[int, float]]]:
    """For every pair the steps at which its stays count, and how much."""
    words: dict[Pair, set[int]] = {}
    for _, word in steps:
        if word.name[0] == "s":
            words.setdefault(word.name[1:3], set()).add(id(word))
    made: dict[Pair, list[tuple[int, int]]] = {}
    for (i, j, c), step in found.scores:
        made.setdefault((i, j), []).append((step, c))
    counted: dict[Pair, list[tuple[int, float]]] = {}
    for pair, ids in words.items():
        loads = [step for step, (done, word) in enumerate(steps) if done == "load" and id(word) in ids]
        counted[pair] = []
        for start, stop in pairwise([*begun(steps, ids), len(steps)]):
            columns: set[int] = set()
            load = next((step for step in loads if start <= step < stop), stop)
            for step, c in sorted(made.get(pair, [])):
                if start <= step < load and c not in columns:
                    columns.add(c)
                    counted[pair].append((step, 1 / dv))
            if load < stop:
                counted[pair].append((load, 1 - len(columns) / dv))
        moved = [done for done, word in steps if id(word) in ids and done != "make"]
        assert sum(share for _, share in counted[pair]) <= len(moved) + ("store" not in moved) + 1e-9
    return counted


def clock_of(
    steps: Watched, found: Effective, counted: dict[Pair, list[tuple[int, float]]]
) -> tuple["np.ndarray", dict[Pair, int]]:
    """The clock before every step and at the end, and when every output comes in first."""
    clock, first_stays = np.zeros(len(steps) + 1), {}
    for step, (done, word) in enumerate(steps):
        clock[step + 1 :] += (done == "load" and word.name[0] in "qkv") + (done == "store" and word.name[0] == "o")
    for shares in counted.values():
        for step, share in shares:
            clock[step + 1 :] += share
    for key, chain in found.chains.items():
        starts = begun(steps, {id(word) for _, word in chain})
        first_stays[key] = starts[0]
        for start in starts[1:]:
            clock[start + 1 :] += 1
        for (made, word), end in zip(chain, [*(made for made, _ in chain[1:]), len(steps)], strict=True):
            clock[made + 1 : min([step for step in word.slow if step < end], default=end) + 1] += 1
    return clock, first_stays


@pytest.mark.parametrize("seed", range(60))
def test_no_random_run_has_more_words_or_does_more_than_the_lemmas_say(seed: int) -> None:
    random = np.random.default_rng(seed + 1000)
    n, m, d, dv, fast_words = (int(random.integers(low, high)) for low, high in [(1, 5)] * 2 + [(1, 4)] * 2 + [(5, 24)])
    run = RandomRun(n, m, d, dv, fast_words, random, keep=float(random.choice([0.0, 0.3, 0.9])))
    run.steps = steps = Watched(run)
    found = effective_products(run.play())
    counted = shares_of(steps, found, dv)
    stored = {word.name[1:3] for done, word in steps if done == "store" and word.name[0] == "s"}
    held = set(counted) - stored
    clock, first_stays = clock_of(steps, found, counted)
    assert -1e-9 <= np.diff(clock).min() <= np.diff(clock).max() <= 2 + 1e-9
    assert clock[-1] <= sum(done != "make" for done, _ in steps) + len(held) + 1e-9
    for _ in range(20):
        start, end = sorted(int(step) for step in random.integers(0, len(steps) + 1, 2))
        there = steps.after[start - 1] & steps.stayed[start] if 0 < start < len(steps) else set()
        here = {word.name[1:3] for _, word in steps if word.name[0] == "s" and id(word) in there}
        here |= {word.name[1:3] for done, word in steps[start:end] if done == "load" and word.name[0] == "s"}
        columns: dict[Pair, set[int]] = {}
        for (i, j, c), step in found.scores:
            if start <= step < end and (i, j) not in here:
                columns.setdefault((i, j), set()).add(c)
        shares = {pair: len(some) / dv for pair, some in columns.items()}
        z = len(here) + sum(shares.values())
        entries, _ = run.flowing_in(start, end)
        products = [(i, j) for (i, j, _), step in found.outputs if start <= step < end]
        outputs = {(i, c) for (i, _, c), step in found.outputs if start <= step < end}
        first = {key for key in outputs if {id(word) for _, word in found.chains[key]} & there}
        free = sum(start <= first_stays[key] < end for key in outputs - first)
        budget = (fast_words if start else 0) + clock[end] - clock[start]
        assert len(entries) + z + 2 * len(outputs) - len(first) - free <= budget + 1e-9
        # scores: shares of products in a column
        done = [step for _, step in found.scores if start <= step < end]
        areas = [sum(name[0] in "qk" and name[3] == t for name in entries) ** 2 / 4 for t in range(d)]
        assert len(done) / dv <= sum(min(z, area) for area in areas) + 1e-9
        # outputs: those of fresh pairs are paid for, or meet in a rectangle
        fresh = set(products) - here
        full = [
            [k for k in range(n if kind == "q" else m) if all((kind, k, 0, t) in entries for t in range(d))]
            for kind in "qk"
        ]
        assert fresh <= set(product(*full))
        assert all(products.count(pair) <= dv * shares[pair] + 1e-9 for pair in fresh)
        kept = set(products) & here & held
        assert len(kept) <= min(len(here), fast_words - len(first))
        more, part = float(random.random()), float(random.random())
        sides = np.sqrt(sum(name[0] == "v" for name in entries) * len(outputs))
        paid = sum(shares[pair] for pair in fresh)
        pairs = len(here) + more * len(kept) + (1 + more) * part**2 * len(fresh)
        weight = len(products) + (np.sqrt(1 + more) - 1) * sum(pair in held for pair in products)
        assert weight <= np.sqrt(pairs) * sides + (1 - part) * np.sqrt(1 + more) * paid * dv + 1e-9


@pytest.mark.parametrize("seed", range(60))
def test_a_step_between_two_epochs_may_count_in_the_second(seed: int) -> None:
    random = np.random.default_rng(seed + 2000)
    n, m, d, dv, fast_words = (int(random.integers(low, high)) for low, high in [(1, 5)] * 2 + [(1, 4)] * 2 + [(5, 24)])
    run = RandomRun(n, m, d, dv, fast_words, random, keep=float(random.choice([0.0, 0.3, 0.9])))
    run.steps = steps = Watched(run)
    found = effective_products(run.play())
    counted = shares_of(steps, found, dv)
    clock, first_stays = clock_of(steps, found, counted)
    between = [step for step, (done, _) in enumerate(steps) if done == "make" and clock[step + 1] > clock[step]]
    for step in between:
        end = int(random.integers(step + 1, len(steps) + 1))
        word, there = steps[step][1], steps.after[step]
        factors = [each for each in word.parents if each.name[0] in "qkv" or each.name[0] == "s" != word.name[0]]
        assert len(there) <= fast_words
        assert {id(each) for each in factors} <= there  # no run here makes a word in the place of one of these
        entries = run.flowing_in(step + 1, end)[0] | {each.name for each in factors if each.name[0] in "qkv"}
        here = {each.name[1:3] for _, each in steps if each.name[0] == "s" and id(each) in there}
        here |= {each.name[1:3] for done, each in steps[step + 1 : end] if done == "load" and each.name[0] == "s"}
        columns: dict[Pair, set[int]] = {}
        for (i, j, c), made in found.scores:
            if step <= made < end and (i, j) not in here:
                columns.setdefault((i, j), set()).add(c)
        z = len(here) + sum(len(some) / dv for some in columns.values())
        outputs = {(i, c) for (i, _, c), made in found.outputs if step <= made < end}
        first = {key for key in outputs if {id(each) for _, each in found.chains[key]} & there}
        free = sum(step < first_stays[key] < end for key in outputs - first)
        products = {(i, j) for (i, j, _), made in found.outputs if step <= made < end}
        budget = fast_words + clock[end] - clock[step + 1]
        assert len(entries) + z + 2 * len(outputs) - len(first) - free <= budget + 1e-9
        full = [
            [k for k in range(n if kind == "q" else m) if all((kind, k, 0, t) in entries for t in range(d))]
            for kind in "qk"
        ]
        assert products - here <= set(product(*full))


@laws
@given(st.data(), st.sampled_from(["dense", "causal", "window:3", "window:9"]), st.floats(0.37, 1.0))
def test_no_plan_moves_less(data: st.DataObject, mask: str, share: float) -> None:
    d = data.draw(st.integers(3, 20))
    workload = Workload(n=data.draw(st.integers(9, 60)), d=d, value_dim=data.draw(st.integers(1, 2 * d)), mask=mask)
    try:
        plan = best_plan_for(workload, max(3, int(share * d * d)))
    except DoesNotFit:
        return
    for bound in held_scores(workload, plan.fast_words):
        assert bound.words <= execute(plan).moved_words == plan.moved_words


def test_it_is_ahead_up_to_the_square_of_the_width_for_values_no_wider_than_twice_the_keys() -> None:
    for n, d in ((8192, 64), (65536, 128)):
        for share, times in product((0.45, 0.55, 0.65, 0.75, 0.85, 1), (1, 2)):
            workload, fast_words = Workload(n=n, d=d, value_dim=times * d), int(share * d * d)
            (bound,) = held_scores(workload, fast_words)
            assert bound.words > 1.02 * recomputed_scores(workload, fast_words).words
        assert held_scores(Workload(n=n, d=d, value_dim=2 * d + 1), int(0.75 * d * d)) == ()


def test_arrays_say_what_floats_say() -> None:
    points = list(product((1e3, 1e9), (1.0, 5e3), (16.0, 64.0), (8.0, 16.0, 64.0), (100.0, 128.0, 256.0, 2867.0, 4e3)))
    assert held_score_words(*np.array(points).T).tolist() == [held_score_words(*point) for point in points]
