"""Short periods: the steps of the proof on random runs cut at random, its counts by brute force, and no plan below."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for
from attenio.bounds.short_periods import kept_words, rows_or_keys, short_periods, whole_keys, words_over_periods
from attenio.bounds.single_stays import words_again_of_band
from attenio.dataflows import execute
from attenio.errors import DoesNotFit
from attenio.masks.patterns import Band
from attenio.planning import best_plan_for
from attenio.planning.training import training_plan_for
from attenio.workload import Direction, Workload

from .random_runs import Name, RandomRun, Word

laws = settings(max_examples=26, deadline=None, derandomize=True)
WAYS = (Direction.FORWARD, Direction.BACKWARD)


@dataclass(eq=False)
class CutRun(RandomRun):
    """A run that remembers what fast memory holds after every step, and what a step used besides."""

    after: list[set[Word]] = field(default_factory=list)
    during: list[set[Word]] = field(default_factory=list)

    def seen(self) -> "CutRun":
        run = self

        class Steps(list):
            def append(self, step):
                super().append(step)
                done, word = step
                run.after.append({*run.fast, word} if done == "load" else {*run.fast})
                run.during.append({*run.after[-1], *(word.parents if done == "make" else ())})

        self.steps = Steps()
        self.play()
        return self

    def entry(self, word: Word) -> Name | None:
        """The entry that a word belongs to: of an output, whatever keys it is over."""
        kind, row, _, column = word.name
        return None if kind in "sl" else (kind, row, 0, column)


def entries(run: CutRun, words: set[Word]) -> set[Name]:
    return {name for word in words if (name := run.entry(word))}


class Periods:
    """A run cut where so many rows have ticked: when entries are in, which rows tick, and which pairs are held."""

    def __init__(self, run: CutRun, most: int) -> None:
        self.run, self.cuts = run, []
        own = {
            i: {("q", i, 0, t) for t in range(run.d)} | {("o", i, 0, c) for c in range(run.dv)} for i in range(run.n)
        }
        self.ticks: dict[int, int] = {}
        seen: set[Name] = set()
        self.active: list[set[Name]] = []
        for at, words in enumerate(run.during):
            seen |= entries(run, words)
            new = [i for i in own if i not in self.ticks and own[i] <= seen]
            assert len(new) <= 1
            self.ticks |= dict.fromkeys(new, len(self.cuts))
            if new and len(self.ticks) % most == 0 and len(self.ticks) < run.n:
                self.cuts.append(at)
                self.active.append(seen)
                seen = entries(run, run.after[at])
        self.active.append(seen)
        at_cuts = {word for cut in self.cuts for word in run.after[cut]}
        loaded = {word for done, word in run.steps if done == "load"}
        self.held = {word.name[1:3] for word in at_cuts | loaded if word.name[0] == "s"}

    def of(self, name: Name) -> set[int]:
        return {period for period, names in enumerate(self.active) if name in names}


def cut_run(seed: int) -> tuple[CutRun, Periods]:
    random = np.random.default_rng(seed)
    n, m, d, dv = (int(random.integers(low, high)) for low, high in [(2, 9), (1, 7), (1, 4), (1, 4)])
    fast_words = int(random.integers(5, max(7, (n + m) * (d + dv) // 2 + 4)))
    run = CutRun(n, m, d, dv, fast_words, random, keep=float(random.choice([0.0, 0.5, 1.0]))).seen()
    return run, Periods(run, int(random.integers(1, 4)))


@pytest.mark.parametrize("seed", range(60))
def test_an_entry_of_several_periods_is_in_at_cuts_or_comes_again_and_held_pairs_take_words_too(seed: int) -> None:
    run, periods = cut_run(seed)
    names = {name for active in periods.active for name in active}
    loads = Counter(run.entry(word) for done, word in run.steps if done == "load")
    at_cuts = Counter(name for cut in periods.cuts for name in entries(run, run.after[cut]))
    for name in names:
        again = loads[name] - (name[0] != "o")
        assert again + at_cuts[name] >= len(periods.of(name)) - 1
    moved = sum(done != "make" for done, _ in run.steps)
    over = sum(len(periods.of(name)) - 1 for name in names)
    compulsory = (run.n + run.m) * (run.d + run.dv)
    assert moved >= compulsory + over + len(periods.held) - len(periods.cuts) * run.fast_words


@pytest.mark.parametrize("seed", range(60))
def test_an_entry_that_lives_in_a_period_meets_its_partners_there_and_rows_that_never_tick_hold_pairs(
    seed: int,
) -> None:
    run, periods = cut_run(seed)
    for j in range(run.m):
        lives = {
            (kind, column): periods.of((kind, j, 0, column))
            for kind, width in (("k", run.d), ("v", run.dv))
            for column in range(width)
        }
        for (kind, column), where in lives.items():
            partner = "q" if kind == "k" else "o"
            for i in range(run.n):
                if len(where) == 1:
                    assert where <= periods.of((partner, i, 0, column))
                if i not in periods.ticks and (i, j) not in periods.held:
                    assert kind == "v" or len(where) > 1
                    assert all(len(periods.of(("q", i, 0, t))) > 1 for t in range(run.d))
    for i, period in periods.ticks.items():
        assert all(period in periods.of(("q", i, 0, t)) for t in range(run.d))


def test_some_rows_never_tick_and_some_keys_live_in_one_period():
    cut = [cut_run(seed) for seed in range(60)]
    assert any(len(periods.ticks) < run.n for run, periods in cut)
    assert any(periods.cuts and len(periods.of(("k", j, 0, 0))) == 1 for run, periods in cut for j in range(run.m))


@laws
@given(st.sets(st.integers(0, 60), min_size=1, max_size=50), st.integers(1, 20), st.integers(1, 3), st.integers(1, 59))
def test_keys_that_live_in_a_period_have_rows_enough_that_tick_in_another(
    keys: set[int], width: int, sharing: int, words: int
) -> None:
    words = min(words, sharing * width)
    ticks = sharing * width - words
    needed = Counter(row for key in keys for row in range(key, key + width) for _ in range(sharing))
    counts = sorted((min(each // sharing, words) for each in needed.values() for _ in range(sharing)), reverse=True)
    assert sum(counts[ticks:]) >= words * len(keys)  # whichever rows tick here


@laws
@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(2, 12))
def test_whoever_is_in_at_any_periods_keys_and_rows_are_in_once_more_for_every_key(seed: int, n: int, w: int) -> None:
    """One entry of every key and its partner in every row: any periods, no more than w - 1 rows ticking in each."""
    random = np.random.default_rng(seed)
    keys = max(n - w + 1, 0)
    order = random.permutation(n) if random.random() < 0.5 else np.arange(n)
    tick = {int(row): at // (w - 1) for at, row in enumerate(order)}
    most = max(tick.values())
    rows = {row: {period} for row, period in tick.items()}
    extra = 0
    for key in range(keys):
        own = [tick[row] for row in range(key, key + w)]
        lives = random.random() < 0.8
        where = int(random.choice(own)) if random.random() < 0.8 else int(random.integers(0, most + 1))
        if lives:
            for row in range(key, key + w):
                rows[row].add(where)
        extra += not lives
    assert extra + sum(len(each) - 1 for each in rows.values()) >= keys


@laws
@given(
    st.integers(1, 30), st.integers(1, 30), st.integers(-5, 40), st.integers(-5, 20), st.integers(-20, 20), st.data()
)
def test_whole_keys_are_those_that_so_many_rows_need_at_one_distance(
    rows: int, keys: int, left: int, right: int, shift: int, data: st.DataObject
) -> None:
    width = data.draw(st.integers(1, rows))
    band = Band(rows=rows, keys=keys, left=left, right=right, shift=shift)

    def need(row: int, key: int) -> bool:
        return bool(band.first_key(row) <= key < band.end_key(row))

    def whole(key: int, distance: int) -> bool:
        needing = range(key + distance, key + distance + width)
        return needing[0] >= 0 and needing[-1] < rows and all(need(row, key) for row in needing)

    counts = [sum(whole(key, distance) for key in range(keys)) for distance in range(-keys, rows + 1)]
    assert whole_keys(band, width) == max(counts)


@laws
@given(st.data(), st.sampled_from(["window", "causal"]), st.sampled_from(WAYS))
def test_no_plan_and_no_run_moves_less(data: st.DataObject, mask: str, way: Direction) -> None:
    d, dv = (data.draw(st.integers(1, 2)) for _ in range(2))
    words = kept_words(d, dv, way)
    window = data.draw(st.integers(words + 1, 30))
    n = data.draw(st.integers(window, 6 * window))
    group = data.draw(st.sampled_from([1, 2]))
    fast_words = data.draw(st.integers(words * window // 4, words * (window if mask == "window" else n))) + 4
    name = f"window:{window}" if mask == "window" else mask
    workload = Workload(n=n, d=d, value_dim=dv, heads=group, kv_heads=1, mask=name, direction=way)
    try:
        plan = best_plan_for(workload, fast_words)
    except DoesNotFit:
        return
    moved = execute(plan).moved_words if n <= 60 else plan.moved_words
    assert short_periods(workload, fast_words, direction=way).words <= moved


@laws
@given(st.integers(2, 64), st.integers(4, 200), st.integers(2, 20), st.floats(0.5, 4.0))
def test_no_plan_of_a_long_window_moves_less(d: int, many: int, windows: int, share: float) -> None:
    window = many * d
    for way in WAYS:
        workload = Workload(n=windows * window, d=d, mask=f"window:{window}", direction=way)
        fast_words = int(share * d * window) + 8
        bound, plan = short_periods(workload, fast_words, direction=way), best_plan_for(workload, fast_words)
        assert bound.words <= plan.moved_words


@laws
@given(st.integers(2, 64), st.integers(8, 200), st.integers(3, 20), st.floats(0.5, 4.0))
def test_no_training_step_moves_less_than_a_forward_pass_and_periods_less_a_fast_memory(
    d: int, many: int, windows: int, share: float
) -> None:
    window = many * d
    step = Workload(n=windows * window, d=d, mask=f"window:{window}", direction="training")
    fast_words = int(share * d * window) + 8
    periods = short_periods(step, fast_words, direction=WAYS[1]).words
    forward = step.towards(WAYS[0]).compulsory_words
    assert forward + periods - fast_words <= training_plan_for(step, fast_words).moved_words


@laws
@given(st.integers(4, 64), st.integers(200, 2000), st.integers(10, 60), st.floats(0.2, 3.2))
def test_a_long_window_costs_the_words_of_its_keys_less_fast_memory_once_for_every_window(
    d: int, many: int, windows: int, share: float
) -> None:
    window = many * d
    for way, kept in zip(WAYS, (2, 3), strict=True):
        fast_words = int(share * d * window)
        workload = Workload(n=windows * window, d=d, mask=f"window:{window}", direction=way)
        again = short_periods(workload, fast_words, direction=way).words - workload.compulsory_words
        leading = (windows - 1) * (kept * d * window - fast_words)
        lost = windows * kept * d * (kept * d + 1) + kept * d
        assert again >= leading - lost - windows * (kept * d + 1)
        outputs = windows * window * d // 2 if way is Direction.BACKWARD else 0
        assert again <= max(leading + fast_words + outputs, 0)
        assert again == 0 or fast_words < kept * d * (window + 1) + (outputs and d * window)


@laws
@given(st.integers(4, 64), st.integers(200, 2000), st.integers(2, 30), st.floats(0.5, 3.4))
def test_outputs_add_half_of_the_words_of_rows_but_for_lower_orders(
    d: int, many: int, windows: int, share: float
) -> None:
    window, fast_words = many * d, int(share * many * d * d)
    workload = Workload(n=2 * windows * window, d=d, mask=f"window:{window}", direction="backward")
    again = short_periods(workload, fast_words, direction=Direction.BACKWARD).words - workload.compulsory_words
    leading = (2 * windows - 1) * (3 * d * window - fast_words) + windows * window * d
    assert again >= leading - 2 * windows * d * (20 * d + 20)


def colours(draw, keys: int, width: int, ticks: int) -> tuple[list[int], list[int]]:
    """Periods of keys in runs, -1 where one is in in several; and a period for each row, of ``ticks`` at most."""
    of_keys: list[int] = []
    while len(of_keys) < keys:
        of_keys += [draw(st.integers(-1, 3))] * draw(st.integers(1, 2 * width))
    room, of_rows = dict.fromkeys(range(-1, keys + width), ticks) | {-1: keys + width}, []
    for row in range(keys + width - 1):
        seen = [period for period in of_keys[max(0, row - width + 1) : min(keys, row + 1)] if period >= 0]
        chosen = draw(st.sampled_from(seen)) if seen and draw(st.integers(0, 9)) else draw(st.integers(-1, 4))
        of_rows.append(chosen if room[chosen] else next(period for period in room if room[period]))
        room[of_rows[-1]] -= 1
    return of_keys[:keys], of_rows


@settings(laws, max_examples=400)
@given(st.data(), st.integers(1, 30), st.integers(1, 90), st.integers(1, 3), st.integers(0, 2))
def test_rows_meet_keys_in_other_periods_or_keys_are_in_in_several(
    data: st.DataObject, width: int, keys: int, alike: int, excuses: int
) -> None:
    alike = min(alike, width)
    of_keys, of_rows = colours(data.draw, keys, width, width - alike)
    late = [
        {key for key in range(max(0, row - width + 1), min(keys, row + 1)) if of_keys[key] not in (-1, ticks)}
        for row, ticks in enumerate(of_rows)
    ]
    excused = [row for row, some in enumerate(late) if 0 < len(some) <= excuses * alike]  # their pairs are held
    held = sum(len(late[row]) for row in excused)
    charged = sum(bool(some) for some in late) - len(excused)
    found = rows_or_keys((keys, width, 1), alike)  # less two rows that need a single key
    assert charged + of_keys.count(-1) + held / alike >= found + 2 * (found > 0)


def test_a_row_that_reads_no_outputs_pays_for_values_and_their_gradients():
    """All ways in which entries of a key live in periods beside that of D, 2 of 5, with the periods of the row."""
    sets = [{period for period in range(5) if number >> period & 1} - {2} for number in range(32)]
    for values, keys, gradients in product(sets, repeat=3):
        if any(period < 2 for period in keys) or not (union := values | keys | gradients):
            continue
        for loaded in (False, True):
            if not loaded and any(period > 2 for period in values):
                continue
            least = min(
                len(union | {before, after}) + len(union | {output}) + len(values | {final}) - 3
                for before, output in product(range(3), repeat=2)
                for after, final in product(range(2, 5), repeat=2)
            )
            assert least >= len(values) + len(keys) + (bool(gradients) and not loaded)


def test_more_fast_memory_and_shorter_runs_never_make_the_bound_of_a_window_larger():
    for way in WAYS:
        for n, window, d in ((4096, 256, 4), (1000, 200, 3), (333, 77, 2)):
            workload = Workload(n=n, d=d, mask=f"window:{window}", direction=way)
            extra = [
                short_periods(workload, fast_words, direction=way).words - workload.compulsory_words
                for fast_words in range(4, 4 * d * window, 37)
            ]
            assert all(less <= more for more, less in pairwise(extra))
            assert extra[0] > extra[-1] == 0


def test_heads_are_added_up_and_dense_masks_prefixes_and_several_memories_say_nothing():
    for way in WAYS:
        one, fast_words = Workload(n=512, d=2, mask="window:64", direction=way), 150
        many = Workload(n=512, d=2, mask="window:64", heads=3, batch=5, direction=way)
        words = short_periods(one, fast_words, direction=way).words
        assert short_periods(many, fast_words, direction=way).words == 15 * words > many.compulsory_words
    prefix = Workload(queries=64, keys=512, d=2, batch=3, mask="prefix:256", direction="backward")
    assert short_periods(prefix, 200, direction=WAYS[1]).words == prefix.compulsory_words

    def told(workload: Workload, **options) -> bool:
        return any(bound.theorem == "short-gradient-periods" for bound in bounds_for(workload, 300, **options))

    window = Workload(n=512, d=2, mask="window:64", direction="backward")
    assert told(window)
    assert told(window, probabilities_saved=True)
    assert not told(window, units=2)


def test_a_step_in_order_takes_it_for_its_second_part():
    step = Workload(n=65_536, d=16, mask="window:4096", direction="training")
    found = {bound.theorem: bound for bound in bounds_for(step, 5 * 16 * 4096 // 2)}
    said = "compulsory forward + short-gradient-periods backward, whatever was saved, - M"
    assert found["step-in-order"].regime == said


@laws
@given(
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.integers(1, 10**5),
    st.integers(1, 300),
    st.integers(1, 300),
    st.integers(1, 9),
    st.integers(3, 2**60),
)
def test_arrays_say_what_numbers_say(n: int, m: int, window: int, d: int, dv: int, group: int, fast: int) -> None:
    band = Band(rows=n, keys=m, left=window - 1, right=0, shift=m - n)
    many = Band(**{name: np.array([getattr(band, name)] * 2) for name in ("rows", "keys", "left", "right", "shift")})
    for way in WAYS:
        for memory in (fast, min(fast, 2 * d * window)):
            alone = words_over_periods(band, group, (d, dv, memory), way)
            sizes = (np.array([d, d]), np.array([dv, dv]), np.array([memory, memory]))
            assert words_over_periods(many, np.array([group] * 2), sizes, way).tolist() == [alone, alone]
            assert type(alone) is int


def test_with_twice_as_many_cuts_three_halves_for_each_key_are_enough():
    half, halves = 10, 12
    for key in range(half * (halves - 3)):
        number = key // half
        where = {number, number + (2 if number % 2 == 0 else 1)}
        for row in range(key, key + 2 * half):
            assert where & {row // half, row // half - row // half % 2}


@pytest.mark.parametrize("way", WAYS)
@laws
@given(
    st.tuples(*[st.integers(1, 2**12)] * 2), st.tuples(*[st.integers(1, 80)] * 2), st.integers(1, 8),
    st.sampled_from(["dense", "causal", "window"]), st.integers(1, 2**12), st.integers(1, 2**20),
)  # fmt: skip
def test_no_more_words_come_again_than_are_compulsory(
    way: Direction, lengths: tuple[int, int], widths: tuple[int, int], heads: int, mask: str, width: int, memory: int
) -> None:
    (queries, keys), (d, value_dim) = lengths, widths
    mask = f"window:{min(width, keys)}" if mask == "window" else mask
    workload = Workload(
        queries=queries, keys=keys, d=d, value_dim=value_dim, heads=heads, kv_heads=1, mask=mask, direction=way
    )
    ((band, _),) = workload.separate_patterns
    assert isinstance(band, Band)
    for saved in (False, True):  # sweeps ask for these words only where other bounds say less than twice as much
        again = words_again_of_band(band, heads, widths, memory, way, saved=saved)
        assert max(again, words_over_periods(band, heads, (*widths, memory), way)) <= workload.compulsory_words
