"""Outputs and values beside queries and keys that are there together: the steps of that proof of single stays."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from attenio.bounds.single_stays import single_stays
from attenio.pebbling.row_games import AttentionGame
from attenio.planning import best_plan_for
from attenio.workload import Direction, Workload

from .random_runs import effective_products
from .test_single_stays import Moment, WatchedRun, singles


@dataclass(frozen=True)
class Passing:
    """Outputs of a run with what they meet, or values: when each is begun and done, and what every time has.

    ``spans`` has the first and the last step of the effective products of every one, by its row or key and its column;
    an output is done with its last one.
    """

    run: WatchedRun
    spans: dict[tuple[int, int], tuple[int, int]]
    meets: str  # v or o

    def before(self, step: int, at: int) -> bool:
        return step < at or (step == at and self.run.steps[step][0] != "load")

    def begun(self, at: int) -> set[tuple[int, int]]:
        return {each for each, (first, _) in self.spans.items() if self.before(first, at)}

    def done(self, at: int) -> set[tuple[int, int]]:
        return {each for each, (_, last) in self.spans.items() if self.before(last, at)}

    def within(self, start: int | None, end: int) -> set[int]:
        """Rows, or keys, with an entry that passes from beginning to end between two times."""
        unbegun = set(self.spans) - (set() if start is None else self.begun(start))
        return {row for row, _ in unbegun & self.done(end)}

    def to_begin(self, at: int) -> set[int]:
        """Rows, or keys, with an entry that is not begun."""
        return {row for row, _ in set(self.spans) - self.begun(at)}


def points(both: tuple[Passing, Passing], end: int, many: int) -> list[int]:
    """Times by which so many rows and so many keys have passed, since the beginning and then since the one before."""

    def passed(start: int | None, at: int) -> bool:
        return all(len(each.within(start, at)) >= many for each in both)

    found: list[int] = []
    while not found or all(len(each.to_begin(found[-1])) >= many for each in both):
        start, times = (found[-1] if found else None), range(found[-1] if found else 0, end + 1)
        place = bisect_left(times, True, key=lambda at: passed(start, at))
        if place == len(times):
            return [*found, end]
        found.append(times[place])
    return found


def passing(run: WatchedRun) -> tuple[Passing, Passing]:
    """Outputs, and values."""
    found = effective_products(run).outputs
    both = []
    for kind, others in (("o", "v"), ("v", "o")):
        spans: dict[tuple[int, int], tuple[int, int]] = {}
        for (i, j, c), step in found:
            which = (i if kind == "o" else j), c
            first, last = spans.get(which, (step, step))
            spans[which] = min(first, step), max(last, step)
        both.append(Passing(run, spans, others))
    return both[0], both[1]


def random_run(seed: int) -> tuple[WatchedRun, np.random.Generator]:
    random = np.random.default_rng(seed)
    n, m, d, dv = (int(random.integers(low, high)) for low, high in [(3, 8)] * 2 + [(1, 3), (1, 4)])
    fast_words = int(random.integers(6, max(8, 3 * (n + m) * (d + dv) // 4 + 4)))
    keep = float(random.choice([0.0, 0.5, 1.0]))
    return WatchedRun(n, m, d, dv, fast_words, random, keep=keep).seen(), random


@pytest.mark.parametrize("half", [0, 1])
def test_queries_and_keys_come_again_after_every_point_at_which_they_are_away(half: int) -> None:
    counted = 0
    for seed in range(half, 400, 2):
        run, random = random_run(seed)
        loads = [(step, word.name) for step, (done, word) in enumerate(run.steps) if done == "load"]
        outputs, values = passing(run)
        many, end = int(random.integers(1, 3)), int(random.integers(len(run.steps) // 2, len(run.steps)))
        found = points((outputs, values), end, many)
        for place, (at, then) in enumerate(pairwise(found)):
            until = then if place < len(found) - 2 or then < end else len(run.steps)
            names = {word.name for word in run.held[at]}
            brought = [name for step, name in loads if not outputs.before(step, at) and outputs.before(step, until)]
            pairs = {name[1:3] for name in (*names, *brought) if name[0] == "s"}
            earlier = {name for step, name in loads if outputs.before(step, at)}
            lacking = 0
            for side, (kind, size) in enumerate((("q", run.n), ("k", run.m))):
                for row in range(size):
                    entries = {(kind, row, 0, column) for column in range(run.d)}
                    assert entries <= earlier
                    absent = entries - names - set(brought)
                    assert not absent or sum(pair[side] == row for pair in pairs) >= many
                    lacking += len(absent)
            assert many * lacking <= 2 * run.d * len(pairs)
            counted += 1
    assert counted > 25


@pytest.mark.parametrize("half", [0, 1])
def test_of_every_column_outputs_or_values_are_there_at_points_or_come_again(half: int) -> None:
    counted = 0
    for seed in range(half, 120, 2):
        run, random = random_run(seed)
        loads = Counter(word.name for done, word in run.steps if done == "load")
        both, many = passing(run), int(random.integers(1, 3))
        outputs, values = both
        found = points((outputs, values), int(random.integers(len(run.steps))), many)
        there = {word.name for at in found for word in run.held[at]}
        for column in range(run.dv):
            late = min(sum(c == column for _, c in set(each.spans) - each.begun(found[-1])) for each in both)
            kept = sum(
                (kind, row, 0, column) in there or loads[kind, row, 0, column] > (kind == "v")
                for kind, size in (("o", run.n), ("v", run.m))
                for row in range(size)
            )
            assert kept >= min(run.n, run.m) - max(many, late)
            counted += min(run.n, run.m) > max(many, late)
    assert counted > 60


def test_where_rows_and_keys_begin_and_end_columns_have_not_ended_and_have_begun_unless_pairs_are_open() -> None:
    counted = 0
    for seed in range(60):
        run, random = random_run(seed)
        loads = Counter(word.name for done, word in run.steps if done == "load")
        single = singles(run)
        outputs, values = passing(run)
        for at in random.integers(0, len(run.steps), 6):
            moment = Moment(run, int(at))
            (rows_left, rows_late), (keys_left, keys_late) = (moment.sides(single, kind) for kind in "qk")
            assert not (keys_late and outputs.done(moment.at))
            assert not (rows_late and values.done(moment.at))
            for each, left, others_left in ((outputs, rows_left, keys_left), (values, keys_left, rows_left)):
                rows = each is outputs
                for place, column in set(each.spans) - each.begun(moment.at):
                    assert all(((place, o) if rows else (o, place)) in moment.open for o in others_left)
                    for other in range(run.m if rows else run.n):
                        pairs = {(one, other) if rows else (other, one) for one in left}
                        name = (each.meets, other, 0, column)
                        if pairs - moment.open:
                            assert name in moment.names or loads[name] > rows
                            counted += 1
    assert counted > 40


def test_values_come_again_where_pairs_with_late_rows_are_open_and_keys_unless_they_are() -> None:
    counted = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        n, m, d, fast_words = (int(random.integers(low, high)) for low, high in [(2, 4), (1, 3), (2, 4), (5, 16)])
        run = WatchedRun(n, m, d, 2, fast_words, random, keep=float(random.choice([0.0, 1.0]))).seen()
        loads = Counter(word.name for done, word in run.steps if done == "load")
        single = singles(run)
        for at in range(len(run.steps)):
            moment = Moment(run, int(at))
            sides = moment.sides(single, "q"), moment.sides(single, "k")
            for turned, (left, late) in enumerate(sides):
                if not (left and late):
                    continue
                for other in range(run.n if turned else run.m):
                    pairs = [{(other, one) if turned else (one, other) for one in side} for side in (left, late)]
                    before, after = (bool(each - moment.open) for each in pairs)
                    width = {"v": run.dv, "o": run.dv, "k": run.d, "q": run.d}
                    for kind in ("o", "q") if turned else ("v", "k"):
                        if before and (after or kind in "vo"):
                            names = [(kind, other, 0, column) for column in range(width[kind])]
                            assert all(name in moment.names or loads[name] > (kind != "o") for name in names)
                            counted += not after
    assert counted > 10


@pytest.mark.parametrize(("d", "dv"), [(3, 3), (2, 4), (4, 1)])
@pytest.mark.parametrize(("rows", "keys"), [(2, 2), (3, 3), (4, 2), (2, 4), (3, 4)])
def test_no_solved_game_of_whole_rows_moves_less_even_without_what_is_lost_on_the_way(rows, keys, d, dv):
    needed, both, few = ((1 << keys) - 1,) * rows, d + dv, min(rows, keys)
    for fast_words in range(2 * both, (few + 2) * both, 2):
        game = AttentionGame(needed=needed, fast_words=fast_words, d=d, value_dim=dv, statistics=0)
        over, beyond = few * both - fast_words, (rows + keys) * d - fast_words
        again = min(over + (few * d / 2 if over >= both * d else min(over, few * d / 2)), max(beyond, 0) + few * dv / 2)
        assert game.optimum() >= (rows + keys) * both + max(again, 0)


@pytest.mark.parametrize(("n", "d"), [(8192, 16), (65_536, 64), (65_536, 128)])
def test_where_fast_memory_holds_three_quarters_of_queries_and_keys_the_best_plan_is_within_a_twentieth(n, d):
    for share, most in ((1.25, 1.09), (1.5, 1.05), (1.75, 1.05), (1.95, 1.05)):
        workload, fast_words = Workload(n=n, d=d), int(share * n * d)
        bound = single_stays(workload, fast_words, direction=Direction.FORWARD).words
        assert bound <= best_plan_for(workload, fast_words).moved_words <= most * bound
