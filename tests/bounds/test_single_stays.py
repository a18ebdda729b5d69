"""Single stays: the steps of the proof on random runs, solved games of whole rows, and no plan below the bound."""

import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for
from attenio.bounds.short_periods import short_periods
from attenio.bounds.single_stays import rectangle, single_stays, words_again
from attenio.errors import DoesNotFit
from attenio.masks.patterns import Band
from attenio.pebbling.row_games import AttentionGame
from attenio.planning import best_plan_for
from attenio.planning.training import training_plan_for
from attenio.workload import Direction, Workload

from .random_runs import Name, RandomRun, Word, effective_products

laws = settings(max_examples=26, deadline=None, derandomize=True)
WAYS = (Direction.FORWARD, Direction.BACKWARD)


@dataclass(eq=False)
class WatchedRun(RandomRun):
    """A run that remembers what fast memory holds just before every load, and just after every other step."""

    held: list[set[Word]] = field(default_factory=list)

    def seen(self) -> "WatchedRun":
        run = self

        class Steps(list):
            def append(self, step):
                super().append(step)
                run.held.append({*run.fast, step[1]} if step[0] != "load" else {*run.fast})

        self.steps = Steps()
        self.play()
        return self


class Moment:
    """A time of a run: which entries have left for good, which are still to come, and which pairs are open."""

    def __init__(self, run: WatchedRun, at: int) -> None:
        self.run, self.at = run, at
        self.names = {word.name for word in run.held[at]}
        self.open: set[tuple[int, int]] = set()
        self.outside: set[tuple[int, int]] = set()
        for words, consumed in effective_products(run).carriers:
            for made, until, word in words:
                if self.before(made) and not self.before(until) and not self.before(consumed):
                    self.open.add(word.name[1:3])
                    if word not in run.held[at]:
                        self.outside.add(word.name[1:3])

    def before(self, step: int) -> bool:
        return step < self.at or (step == self.at and self.run.steps[step][0] != "load")

    def sides(self, single: dict[Name, int], kind: str) -> tuple[set[int], set[int]]:
        """Rows (q) or keys (k) with a single entry that has left, and those with one that is still to come."""
        left = {
            name[1] for name, load in single.items() if name[0] == kind and self.before(load) and name not in self.names
        }
        return left, {name[1] for name, load in single.items() if name[0] == kind and not self.before(load)}


def singles(run: RandomRun) -> dict[Name, int]:
    """Entries of inputs that are loaded once, and when."""
    loads = Counter(word.name for done, word in run.steps if done == "load")
    return {word.name: step for step, (done, word) in enumerate(run.steps) if done == "load" and loads[word.name] == 1}


@pytest.mark.parametrize(("d", "dv"), [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2), (2, 4), (4, 3)])
def test_entries_that_are_away_at_the_last_point_are_few_or_leave_open_pairs(d: int, dv: int) -> None:
    needed, late = d + dv, max(d, 2)
    few = 2 * ((needed - 1) * d + late - 1)
    # departed and late rows, and those that are both; the same of keys
    sides = [
        (gone, to_come, both)
        for gone, to_come in product(range(needed), range(late))
        for both in range(min(gone, to_come) + 1)
    ]
    for (gone, to_come, both), (keys_gone, keys_to_come, both_keys) in product(sides, sides):
        away = d * (gone + to_come - both + keys_gone + keys_to_come - both_keys)
        pairs = gone * keys_to_come + to_come * keys_gone - both * both_keys
        assert away <= few + (1 - Fraction(dv, needed - 1)) * pairs


def test_a_row_that_has_left_and_a_key_that_is_to_come_are_an_open_pair() -> None:
    met = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        n, m, d, fast_words = (int(random.integers(low, high)) for low, high in [(1, 3), (1, 3), (2, 4), (4, 6)])
        run = WatchedRun(n, m, d, 1, fast_words, random, keep=float(random.choice([0.0, 1.0]))).seen()
        single = singles(run)
        for at in range(len(run.steps)):
            moment = Moment(run, at)
            (rows_left, rows_late), (keys_left, keys_late) = (moment.sides(single, kind) for kind in "qk")
            pairs = {(i, j) for i in rows_left for j in keys_late} | {(i, j) for i in rows_late for j in keys_left}
            assert pairs <= moment.open
            met += len(pairs)
    assert met > 20


@pytest.mark.parametrize("seed", range(30))
def test_what_rows_that_have_left_and_rows_to_come_need_comes_twice_unless_pairs_are_open(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, m, d, dv = (int(random.integers(low, high)) for low, high in [(2, 7)] * 2 + [(1, 3)] * 2)
    fast_words = int(random.integers(6, max(8, (n + m) * (d + dv) // 2 + 4)))
    run = WatchedRun(n, m, d, dv, fast_words, random, keep=float(random.choice([0.0, 0.5, 1.0]))).seen()
    loads = Counter(word.name for done, word in run.steps if done == "load")
    single = singles(run)
    scores = sum(done != "make" and word.name[0] == "s" for done, word in run.steps)
    further = {
        kinds: sum(loads[name] - (name[0] != "o") for name in loads if name[0] in kinds) for kinds in ("kv", "qo")
    }
    moved = sum(done != "make" for done, _ in run.steps)
    assert moved >= (n + m) * (d + dv) + sum(further.values()) + scores
    for at in random.integers(0, len(run.steps), 12):
        moment = Moment(run, int(at))
        for pair in moment.outside:
            assert any(word.name[1:3] == pair and word.slow and moment.before(word.slow[0]) for _, word in run.steps)
        (rows_left, rows_late), (keys_left, keys_late) = (moment.sides(single, kind) for kind in "qk")
        for left, late, kinds, many, turned in (
            (rows_left, rows_late, "kv", m, False),
            (keys_left, keys_late, "qo", n, True),
        ):
            count = min(len(left), len(late))
            if not count:
                continue
            chosen = sorted(left)[:count], sorted(late)[:count]
            pairs = [
                [[(other, one) if turned else (one, other) for one in side] for side in chosen] for other in range(many)
            ]
            excused = {o for o in range(many) if any(moment.open.issuperset(side) for side in pairs[o])}
            widths = {"q": d, "k": d, "v": dv, "o": dv}
            needed = [
                (kind, o, 0, c) for kind in kinds for o in range(many) if o not in excused for c in range(widths[kind])
            ]
            absent = [name for name in needed if name not in moment.names]
            assert all(loads[name] >= 1 + (name[0] != "o") for name in absent)
            assert count * len(excused) <= len(moment.open)
            inside = len(moment.open) - len(moment.outside)
            assert further[kinds] >= len(absent) >= len(needed) - (fast_words - inside)


@pytest.mark.parametrize(("d", "dv"), [(3, 3), (2, 4), (4, 1)])
@pytest.mark.parametrize(("rows", "keys"), [(2, 2), (3, 3), (4, 2), (2, 4), (3, 4)])
def test_no_solved_game_of_whole_rows_moves_less_even_without_what_the_proof_loses(rows, keys, d, dv):
    needed, both = ((1 << keys) - 1,) * rows, d + dv
    for fast_words in range(2 * both, (min(rows, keys) + 2) * both, 2):
        game = AttentionGame(needed=needed, fast_words=fast_words, d=d, value_dim=dv, statistics=0)
        again = min((rows + keys) * d, rows * both, keys * both) - fast_words
        assert game.optimum() >= (rows + keys) * both + max(again, 0)


@laws
@given(st.integers(8, 160), st.integers(8, 160), st.integers(1, 4), st.integers(1, 4), st.floats(0.2, 2.2))
def test_no_plan_moves_less(n: int, m: int, d: int, dv: int, share: float) -> None:
    fast_words = int(share * min(n, m) * (d + dv)) + 3
    for mask in ("dense", "causal"):
        for way in WAYS:
            workload = Workload(queries=n, keys=m, d=d, value_dim=dv, mask=mask, direction=way)
            try:
                plan = best_plan_for(workload, fast_words)
            except DoesNotFit:
                continue
            assert single_stays(workload, fast_words, direction=way).words <= plan.moved_words


def test_the_best_plans_of_large_memories_are_within_a_quarter_and_a_half():
    n, d = 65_536, 64
    for way, most in zip(WAYS, (1.25, 1.5), strict=True):
        for share in (1.75, 1.9):
            workload, fast_words = Workload(n=n, d=d, direction=way), int(share * n * d)
            bound = single_stays(workload, fast_words, direction=way).words
            assert workload.compulsory_words < bound <= best_plan_for(workload, fast_words).moved_words <= most * bound


@laws
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 60), st.integers(-10, 60), st.integers(-40, 40))
def test_rows_and_keys_of_a_rectangle_all_need_each_other(
    rows: int, keys: int, left: int, right: int, shift: int
) -> None:
    band = Band(rows=rows, keys=keys, left=left, right=right, shift=shift)
    some, first = rectangle(band)
    assert 0 <= some <= rows
    assert 0 <= first <= keys
    for row in range(rows - some, rows):
        assert not first or (band.first_key(row) == 0 and band.end_key(row) >= first)
    if band.is_dense:
        assert (some, first) == (rows, keys)


@laws
@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 300), st.integers(1, 300), st.integers(3, 10**8))
def test_words_come_again_in_arrays_as_alone_and_not_once_one_kind_fits(
    n: int, m: int, d: int, dv: int, fast: int
) -> None:
    for way in WAYS:
        alone = words_again((n, m, d, dv), fast, way)
        array = words_again((np.array([n, n]), np.array([m, m]), d, dv), np.array([fast, fast]), way)
        assert array.tolist() == [alone, alone]
        kind = d + dv if way is Direction.FORWARD else 2 * d + dv
        assert words_again((n, m, d, dv), min(n, m) * kind, way) == 0


@laws
@given(st.integers(1, 400), st.integers(0, 4000), st.integers(1, 9), st.integers(1, 9), st.floats(0.0, 1.2))
@example(400, 4000, 2, 2, 0.1)  # one moment, and half of the own entries
@example(400, 4000, 2, 2, 0.9)  # many moments
@example(400, 4000, 2, 2, 0.999)  # two moments at least
@example(400, 0, 2, 2, 0.1)  # both gather
@example(400, 0, 2, 8, 0.18)  # both gather, and outputs or values are beside them
@example(400, 0, 2, 8, 0.3)  # queries and keys are there together
@example(400, 0, 2, 2, 0.6)  # half of outputs or values beside queries and keys
@example(400, 0, 4, 1, 1.3)
def test_words_that_come_again_are_those_of_the_theorem(few: int, more: int, d: int, dv: int, share: float) -> None:
    many = few + more
    for way in WAYS:
        own, needed = (d, d + dv) if way is Direction.FORWARD else (d + dv, 2 * d + dv)
        late = max(d, 2) if way is Direction.FORWARD else needed
        fast_words = int(share * few * needed) + 3
        for n, m in ((few, many), (many, few)):
            over = few * needed - fast_words
            half = max(Fraction(few - 2 * needed - late + 1, 2) * own, 0)
            apart = over + (half if over >= needed * own else min(over, half))
            if way is Direction.FORWARD:
                column = Fraction(few * dv)
                beyond, lost = (n + m) * d - fast_words, 2 * (needed + late - 2) * d
                passing = column - 2 * d * dv - 2 * ((needed - 1) * d + late - 1)
                separate = column - max(2 * d * d, 4 * d * dv) - lost
                half_or_more = max(passing / 2, column - 2 * d * dv - fast_words)
                together = beyond + min(half_or_more, passing, separate) if beyond >= 0 else 0
                again = max(min(beyond - d * d - lost, over), min(apart, together))
            else:
                again = min((n + m) * own - fast_words - own**2 - 4 * (needed - 1) * own, apart)
            assert words_again((n, m, d, dv), fast_words, way) == max(math.floor(again), 0)


@settings(laws, max_examples=200)
@given(*2 * [st.integers(1, 3000)], *2 * [st.integers(1, 9)], st.integers(1, 4), st.floats(0, 1), st.floats(-12, 0))
def test_fewer_words_come_again_than_are_compulsory(
    n: int, m: int, d: int, dv: int, heads: int, share: float, memory: float
) -> None:
    masks = "dense", "causal", f"window:{max(1, round(share * min(n, m)))}"
    for way, mask in product(WAYS, masks):
        sizes = {"queries": n, "keys": m, "d": d, "value_dim": dv}
        workload = Workload(**sizes, heads=heads, kv_heads=1, mask=mask, direction=way)
        fast_words = max(1, round(2**memory * min(n, m) * (d + dv)))
        saved = {"saved": True} if way is Direction.BACKWARD else {}
        stays = (single_stays(workload, fast_words, direction=way, **each) for each in ({}, saved))
        for bound in (*stays, short_periods(workload, fast_words, direction=way)):
            assert bound.words < 2 * workload.compulsory_words


def test_heads_are_added_up_and_shared_prefixes_windows_and_several_memories_say_nothing():
    one, fast_words = Workload(queries=4096, keys=2048, d=8), 20_000
    many = Workload(queries=1024, keys=2048, d=8, heads=8, kv_heads=2, batch=3)
    assert (
        single_stays(many, fast_words, direction=WAYS[0]).words
        == 6 * single_stays(one, fast_words, direction=WAYS[0]).words
        > many.compulsory_words
    )
    for mask in ("window:64", "prefix:1024"):
        workload = Workload(queries=1024, keys=2048, d=8, batch=3, mask=mask)
        assert single_stays(workload, 4000, direction=WAYS[0]).words == workload.compulsory_words

    def told(workload: Workload, **options) -> bool:
        return any(bound.theorem.endswith("stays") for bound in bounds_for(workload, 4000, **options))

    backward = Workload(n=1024, d=8, direction="backward")
    assert told(one)
    assert told(backward)
    assert not told(one, units=2)
    assert not told(backward, units=2, probabilities_saved=True)


@laws
@given(st.integers(8, 200), st.integers(1, 3), st.integers(1, 3), st.floats(0.2, 2.2))
def test_no_training_step_moves_less_than_a_forward_pass_and_stays_less_a_fast_memory(
    n: int, d: int, dv: int, share: float
) -> None:
    fast_words = int(share * n * (d + dv)) + 8
    for mask in ("dense", "causal"):
        workload = Workload(n=n, d=d, value_dim=dv, mask=mask, direction="training")
        stays = single_stays(workload, fast_words, direction=WAYS[1], saved=True).words
        forward = workload.towards(WAYS[0]).compulsory_words
        assert forward + stays - fast_words <= training_plan_for(workload, fast_words).moved_words


def test_probabilities_that_are_given_cost_a_few_squares_of_widths_and_a_step_in_order_takes_that():
    n, d = 65_536, 64
    backward = Workload(n=n, d=d, direction="backward")
    for share in (1, 1.5, 2):
        fast_words = int(share * n * d)
        made, given = (single_stays(backward, fast_words, direction=WAYS[1], saved=saved) for saved in (False, True))
        assert made.words - given.words == 4 * 3 * d * 2 * d
        assert given.words == 11 * n * d - fast_words - (4 + 48) * d * d + 8 * d
        assert not any("no probability" in each for each in given.assumptions)
    step = Workload(n=n, d=d, direction="training")
    found = {bound.theorem: bound for bound in bounds_for(step, 2 * n * d)}
    said = "compulsory forward + single-gradient-stays backward, whatever was saved, - M"
    assert found["step-in-order"].regime == said
    assert found["step-in-order"].words == 4 * n * d + given.words - 2 * n * d


@pytest.mark.parametrize("told", [1, 2])
def test_pairs_excuse_fewer_keys_where_more_rows_are_told_apart(told: int) -> None:
    """The count of a moment: pairs that excuse keys, some of them in fast memory, and what is left of it for keys."""
    random = np.random.default_rng(told)
    for _ in range(500):
        needed, keys = (int(each) for each in random.integers(1, 40, 2))
        inside, outside, kept = (int(each) for each in random.integers(0, 400, 3))  # open, to be loaded, since the cut
        fast_words = inside + int(random.integers(0, 2000))
        excused = min(keys, (inside + outside + kept) // (told * needed))
        absent = max(0, needed * (keys - excused) - (fast_words - inside))
        lost = Fraction(outside + kept, told)
        assert absent >= needed * keys - fast_words - lost
