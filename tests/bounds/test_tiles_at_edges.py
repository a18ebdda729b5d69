"""Tiles at edges: the lemmas of the proof on random rows, keys and runs, and no plan below the bound."""

from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for, largest_ordinary
from attenio.bounds.backward.five_products import counted_apart, with_some_granted
from attenio.bounds.lower_bound import MAKES_SCORES, OWN_SUMS
from attenio.bounds.mask_edges import Edges, edges_of
from attenio.bounds.recomputed_scores import counted_products, recomputed_scores
from attenio.bounds.tiles_at_edges import tiles_at_edges, words_at_edges
from attenio.masks.patterns import Band
from attenio.planning.training import training_plan_for
from attenio.workload import Direction, Workload

from .random_runs import Effective, RandomRun, effective_products
from .under_masks import depths, masked, moves_no_less, required_pairs, windowed

laws = settings(max_examples=60, deadline=None, derandomize=True)


def _edges(workload: Workload) -> list[tuple["np.ndarray[tuple[int, int], np.dtype[np.bool_]]", ...]]:
    """For each edge of a mask the scores at it, and pairs beyond it, those of other sequences and heads included."""
    ((band, _),) = workload.separate_patterns
    required, (before, after) = required_pairs(workload), depths(workload)
    problems = workload.batch * workload.kv_heads
    of_row = np.repeat(np.arange(problems), workload.group * band.rows)[:, None]
    of_key = np.repeat(np.arange(problems), band.keys)[None, :]
    same, found = of_row == of_key, []
    if band.end_key(0) < band.keys:
        found.append((required & (after == 0), (of_row < of_key) | (same & (after < 0))))
    if band.first_key(band.rows - 1) > 0:
        found.append((required & (before == 0), (of_row > of_key) | (same & (before < 0))))
    return found


@laws
@given(masked(), st.floats(0, 8), st.data())
def test_what_rows_and_keys_lack_beyond_an_edge_grows_with_the_square_of_what_they_have_at_it(
    workload: Workload, steep: float, data: st.DataObject
) -> None:
    edges, g = edges_of(workload), workload.group
    assume(edges is not None)
    assert edges is not None
    sides = _edges(workload)
    assert len(sides) == edges.count and edges.length == sum(at.sum() for at, _ in sides)
    required = required_pairs(workload)
    assert not any((beyond & required).any() for _, beyond in sides)
    if len(sides) == 2:
        assert not (sides[0][1] & sides[1][1]).any() and not (sides[0][0] & sides[1][0]).any()
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows = random.random(len(required)) < random.random()
    worth = required + sum(steep * at - 2 * beyond for at, beyond in sides)
    for _ in range(8):  # keys that are best for these rows, rows that are best for those keys
        keys = (worth.T @ rows > 0) & (random.random(required.shape[1]) < 0.9)
        lacking = 0.0
        for at, beyond in sides:
            met, absent = (np.outer(rows, keys) & at).sum(), (np.outer(rows, keys) & beyond).sum()
            assert met**2 <= 2 * g * (absent + met / 2)
            lacking += absent + met / 2
        # with any shares of the pairs that weigh z in all
        shares = random.random(required.shape) ** random.choice([0.1, 1, 5]) * (random.random(required.shape) < 0.7)
        at_edges = sum(at for at, _ in sides)
        heavy, met = required + at_edges * (sqrt(0.5) - 1 + steep), np.outer(rows, keys) & required
        corner = 2 * edges.count * g * steep**2
        inside = np.outer(rows, keys).sum() - lacking
        work = (heavy * np.sqrt(shares) * met).sum()
        assert work <= sqrt((shares * required).sum() * inside) + sqrt(corner * lacking) + 1e-6
        assert work <= sqrt((shares * required).sum() + corner) * sqrt(rows.sum() * keys.sum()) + 1e-6
        rows = (worth @ keys > 0) & (random.random(len(required)) < 0.9)


@pytest.mark.parametrize("seed", range(60))
def test_no_epoch_of_a_random_run_does_more_than_the_lemmas_say(seed: int) -> None:
    random = np.random.default_rng(seed)
    n, m, d, dv, fast_words = (int(random.integers(low, high)) for low, high in [(2, 6)] * 2 + [(1, 4)] * 2 + [(5, 24)])
    run = RandomRun(n, m, d, dv, fast_words, random, keep=float(random.choice([0.0, 0.3, 0.9]))).play()
    found, window = effective_products(run), int(random.integers(1, m + 1))
    for _ in range(20):
        start, end = sorted(int(step) for step in random.integers(0, len(run.steps) + 1, 2))
        _check_epoch(run, found, (start, end), window, float(random.choice([0.0, 0.5, 1.0, 3.0])))


def _check_epoch(run: RandomRun, found: Effective, part: tuple[int, int], window: int, weight: float) -> None:
    """That pairs of a window alone, which a run with all pairs makes as well, weigh no more than their words allow."""

    def weigh(i: int, j: int) -> float:
        edges = (i == j) + (i - j == window - 1) if window > 1 else 0
        return float(0 <= i - j < window) * (1 - (1 - sqrt(0.5)) * edges + weight * edges)

    start, end = part
    entries, held = run.flowing_in(start, end)
    made = [(i, j, c) for (i, j, c), step in found.outputs if start <= step < end]
    columns: dict[tuple[int, int], set[int]] = {}
    products = 0.0
    for (i, j, c), step in found.scores:
        if start <= step < end:
            columns.setdefault((i, j), set()).add(c)
            products += weigh(i, j) / run.dv
    charged = sum(weigh(*pair) > 0 for pair in held)
    charged += sum(len(each) / run.dv for pair, each in columns.items() if pair not in held and weigh(*pair) > 0)
    queries, keys, values = (sum(name[0] == kind for name in entries) for kind in "qkv")
    sides = np.sqrt(queries * keys) + np.sqrt(values * len({(i, c) for i, _, c in made}))
    of_output = (counted_products(float(run.d), float(run.dv)) - run.d) / run.dv
    work = products + of_output * sum(weigh(i, j) for i, j, _ in made)
    assert work <= np.sqrt(charged + 4 * weight**2) * sides + 1e-9


@laws
@given(windowed(shortest=-8, longest=0), st.floats(-6, 3))
def test_no_plan_moves_less(workload: Workload, memory: float) -> None:
    fast_words = max(3, round((workload.d + workload.value_dim) ** 2 * 2.0**memory))
    moves_no_less(workload, fast_words, "tiles-at-edges", "gradient-tiles-at-edges")


@laws
@given(st.integers(3, 2000), st.integers(1, 64), st.integers(1, 64), st.floats(-6, 2), st.sampled_from([1, 3]))
def test_it_says_no_more_than_the_theorem_and_about_what_its_best_epochs_say(
    n: int, d: int, dv: int, memory: float, group: int
) -> None:
    fast_words = max(3, round((d + dv) ** 2 * 2.0**memory))
    workload = Workload(n=n, d=d, value_dim=dv, heads=2 * group, kv_heads=2, mask=f"window:{1 + n // 2}")
    scores, at_edges = workload.scores, 2 * group * (2 * n - n // 2)
    edges = edges_of(workload)
    assert edges is not None and edges.length == at_edges
    room, corner = fast_words + 1, 2 * edges.count * group
    for direction in (Direction.FORWARD, Direction.BACKWARD):
        (bound,) = tiles_at_edges(workload, fast_words, direction=direction)
        both = [(counted_products(float(d), float(dv)), 0.0)]
        if direction is Direction.BACKWARD:
            both = list(counted_apart(float(d), float(dv)))
        ways, most, about = [(one, other, other, 0.0) for one, other in both], 0.0, 0.0
        if direction is Direction.BACKWARD:
            ways += with_some_granted(float(d), float(dv))
        for one, other, at_edge, granted in ways:
            high = sqrt(one**2 + at_edge**2)
            all_within = (one + other) * (scores - at_edges) + sqrt(0.5) * (one + at_edge) * at_edges
            weight = room * at_edges * high / (corner * all_within)
            beyond = corner * weight**2
            more = granted * sqrt(1.05 * (room + beyond)) / (4 * dv)
            over = 1 + more + more**2
            work = (all_within + weight * high * at_edges) / over
            for k in range(1, 3000):
                budget = 3 * (work / k) ** (2 / 3)
                more = 1 / (4 * (budget - 2)) if budget > 3 else 1
                length = budget - beyond - fast_words - more  # below which k epochs do not do all
                if length <= 0:
                    break
                most = max(most, fast_words + k * length - (1 + (other > 0)) * scores)
            exact = 2 * sqrt(all_within**2 / fast_words + (high * at_edges) ** 2 / corner) / over
            about = max(about, exact + fast_words - (1 + (other > 0)) * scores)
        assert bound.words <= most + 1 or work > 1000 * (room + beyond) ** 1.5
        assert bound.words <= about + 1
        if work > 20 * (room + beyond) ** 1.5 and fast_words > 100 and bound.words:
            assert bound.words + scores >= (about + scores) * 0.99


@laws
@given(st.integers(3, 400), st.integers(1, 64), st.integers(1, 64), st.floats(-6, 1))
def test_where_probabilities_may_be_given_it_is_the_least_over_how_many_are(
    n: int, d: int, dv: int, memory: float
) -> None:
    fast_words = max(3, round((d + dv) ** 2 * 2.0**memory))
    workload = Workload(n=n, d=d, value_dim=dv, mask=f"window:{1 + n // 2}", direction="backward")
    (given_some,) = tiles_at_edges(workload, fast_words, direction=Direction.BACKWARD, saved=True)
    assert given_some.covers == OWN_SUMS and "no probability is given" not in " ".join(given_some.assumptions)
    edges = edges_of(workload)
    assert edges is not None
    scores, at_edges, room = workload.scores, edges.length, fast_words + 1
    within, most = scores - (1 - sqrt(0.5)) * at_edges, 0.0
    for q in (0.838, 0.9, 0.95):
        made = 2 * q * sqrt(1 - q * q) * d
        early, late = counted_products(made, float(dv)) - made, counted_products(float(dv), 2 * q * d)
        high = sqrt(early**2 + late**2)
        weight = room * at_edges * high / (4 * within * (early + late))
        beyond = 4 * weight**2
        least = np.inf
        for inside, at_edge in product((0, 1), repeat=2):  # shares of pairs whose probabilities are made
            of_edge = sqrt(0.5) + weight * early / high
            work = (early + late) * within + weight * high * at_edges
            work += made * (inside * (scores - at_edges) + at_edge * of_edge * at_edges)
            lost = scores + inside * (scores - at_edges) + at_edge * at_edges
            epochs = max(1, int(work / (room + beyond) ** 1.5)) + np.arange(2)
            reached = 3 * work ** (2 / 3) * np.cbrt(epochs) - epochs * (room + beyond)
            least = min(least, fast_words + float(reached.max()) - lost)
        most = max(most, least)
    assert given_some.words <= most + 1
    assert given_some.words >= (most + 3 * scores) * 0.95 - 3 * scores - 1 or given_some.words == 0


@pytest.mark.parametrize(("window", "d", "fast_words"), [(16, 64, 256), (32, 128, 1024), (8, 16, 64)])
def test_no_pass_that_reads_probabilities_moves_less(window: int, d: int, fast_words: int) -> None:
    workload = Workload(n=256, d=d, mask=f"window:{window}", direction="training")
    step = training_plan_for(workload, fast_words, saved="probabilities")
    assert "gradient-tiles-at-edges" in {bound.theorem for bound in step.backward.lower_bounds}
    assert step.backward.gap >= 1 and training_plan_for(workload, fast_words).gap >= 1


def test_a_short_window_adds_two_fifths_and_more_where_fast_memory_is_its_square() -> None:
    workload = Workload(n=65_536, d=128, mask="window:64")
    (edges,) = tiles_at_edges(workload, 4096, direction=Direction.FORWARD)
    assert edges.words > 1.4 * recomputed_scores(workload, 4096).words
    for way, times in (("forward", 1.15), ("backward", 1.2)):
        workload = Workload(n=65_536, d=128, mask="window:64", direction=way)
        bounds = bounds_for(workload, 4096)
        others = (bound for bound in bounds if "tiles-at-edges" not in bound.theorem)
        assert largest_ordinary(bounds).words > times * largest_ordinary(others).words


def test_under_a_window_of_two_keys_tiles_of_a_path_of_scores_move_little_more() -> None:
    closest = 0.0
    for n, d, held in product((2, 7, 36, 200), (1, 5, 43, 300), (2, 5, 20, 67, 77)):
        whole, rest = divmod(2 * n - 1, held)
        moved = 2 * d * (whole * (held + 1) + (rest + 1 if rest else 0))
        (bound,) = tiles_at_edges(Workload(n=n, d=d, mask="window:2"), held + 3, direction=Direction.FORWARD)
        assert bound.words <= moved
        closest = max(closest, bound.words / moved)
    assert closest > 0.998


def test_what_it_covers_is_said_beside_it() -> None:
    for way, theorem, covers in (
        (Direction.FORWARD, "tiles-at-edges", OWN_SUMS),
        (Direction.BACKWARD, "gradient-tiles-at-edges", MAKES_SCORES),
    ):
        (bound,) = tiles_at_edges(Workload(n=64, d=4, mask="causal"), 64, direction=way)
        assert (bound.theorem, bound.covers) == (theorem, covers)
        assert "a tile across an edge of the mask has fewer scores" in bound.regime


def test_masks_without_edges_have_no_such_bound() -> None:
    for workload in (Workload(n=64, d=8), Workload(n=1, d=8, mask="causal"), Workload(n=64, d=8, mask="window:1")):
        for direction in (Direction.FORWARD, Direction.BACKWARD):
            assert tiles_at_edges(workload, 64, direction=direction) == ()


@laws
@given(st.integers(50, 5000), st.floats(0.01, 1), st.integers(1, 40), st.floats(-6, 2), st.sampled_from(Direction))
def test_one_workload_and_arrays_of_them_say_the_same(
    n: int, share: float, d: int, memory: float, direction: Direction
) -> None:
    assume(direction is not Direction.TRAINING)
    window = max(2, round(share * n))
    workload = Workload(n=n, d=d, mask=f"window:{window}" if window < n else "causal", heads=6, kv_heads=2)
    ((band, _),) = workload.separate_patterns
    sides = {name: np.array([getattr(band, name)]) for name in ("rows", "keys", "left", "right", "shift")}
    several, alone = Edges(Band(**sides), np.array([3.0]), lambda counts: 6.0 * counts), edges_of(workload)
    assert alone is not None
    fast_words = float(max(3, round(4 * d * d * 2.0**memory)))
    together = words_at_edges(several, (np.array([1.0 * d]), np.array([1.0 * d]), np.array([fast_words])), direction)
    assert [words_at_edges(alone, (float(d), float(d), fast_words), direction)] == together.tolist()
