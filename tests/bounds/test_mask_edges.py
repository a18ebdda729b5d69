"""Mask edges: the lemma of the proof on random and on the worst rows and keys, and no plan below the bound."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for, largest_ordinary
from attenio.bounds.backward.gradient_rows import even_weights
from attenio.bounds.backward.gradient_rows import weights as gradient_weights
from attenio.bounds.lower_bound import OWN_ROW_SUMS, OWN_SUMS
from attenio.bounds.mask_edges import (
    Edges,
    corner_weight,
    edge_words,
    edges_of,
    mask_edges,
    most_at_edges,
    raised_at_edges,
)
from attenio.masks.patterns import Band
from attenio.workload import Direction, Workload

from .under_masks import depths, masked, moves_no_less, required_pairs, windowed

laws = settings(max_examples=60, deadline=None, derandomize=True)


def _weights(workload: Workload, depth: int, more: float) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """1 for a required pair, 1 + more in the strips along the edges that there are."""
    ((band, _),) = workload.separate_patterns
    required, (before, after) = required_pairs(workload), depths(workload)
    ends, begins = bool(band.end_key(0) < band.keys), bool(band.first_key(band.rows - 1) > 0)
    return required * (1 + more * (ends * (after < depth) + begins * (before < depth)))


def _corner(more: float) -> float:
    """More, more less 1 and so on, down to the last that is not negative."""
    return sum(more - fewer for fewer in range(int(more) + 1))


@laws
@given(masked(), st.sampled_from([0.125, 0.5, 1.0, 1.25, 1.75, 2.0, 3.5, 4.0]), st.data())
def test_rows_and_keys_meet_in_no_more_weight_than_all_pairs_and_a_corner_of_every_edge(
    workload: Workload, more: float, data: st.DataObject
) -> None:
    edges = edges_of(workload)
    assume(edges is not None)
    assert edges is not None
    depth = data.draw(st.integers(1, min(int(edges.deepest), 12)))
    weigh = _weights(workload, depth, more)
    corner = float(edges.count * workload.group * _corner(more) * depth**2)
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows = random.random(len(weigh))
    for _ in range(12):  # the best keys for these rows, the best rows for those keys
        keys = (weigh.T @ rows > rows.sum()).astype(float)
        assert rows @ weigh @ keys <= rows.sum() * keys.sum() + corner + 1e-6
        rows = (weigh @ keys > keys.sum()).astype(float)
        assert rows @ weigh @ keys <= rows.sum() * keys.sum() + corner + 1e-6
    assert edges.scores == required_pairs(workload).sum() == workload.scores
    assert edges.strips(float(depth)) == (weigh - required_pairs(workload)).sum() / more
    assert edges.rows == required_pairs(workload).any(axis=1).sum()


@pytest.mark.parametrize("depth", [1, 2, 5, 8])
@pytest.mark.parametrize("more", [0.5, 1, 1.5, 2, 3])
def test_the_corner_of_an_edge_is_no_larger_than_it_has_to_be(depth: int, more: float) -> None:
    weigh = _weights(Workload(n=60, d=1, mask="causal"), depth, more)
    keys = np.array([1.0] * 40 + [0.0] * 20)
    gains = weigh @ keys - keys.sum()
    gained = gains[gains > 0].sum()
    # a corner is as wide as strips are deep times a whole number, or less
    assert gained == _corner(more) * depth**2 if int(more) == more else gained <= _corner(more) * depth**2
    assert corner_weight(float(more)) == _corner(more)


EPOCHS = np.arange(1, 60)


def _most_by_trying(workload: Workload, fast_words: int, *, sums: bool) -> float:
    """More than the theorem with every depth, many weights and numbers of epochs; lengths need not be whole."""
    edges, d, dv, best = edges_of(workload), workload.d, workload.value_dim, 0.0
    assert edges is not None
    narrow = min(d, dv)
    if workload.direction is Direction.FORWARD:
        product, term = (d + narrow) ** 2 / narrow, (d + narrow) * sums
        ways, room = [(product, product * dv, term)], (d + dv) * (d + dv + sums)
    else:
        sizes = float(d), float(dv)
        ways = [(max(w[:2]), w[2], 0) for w in (gradient_weights(*sizes), even_weights(*sizes))]
        room = 2 * (2 * d + dv) * (d + dv)
    for heavy, whole, term in ways:
        for more in np.concatenate((np.arange(1, 64) / 8, np.arange(8, 65))):
            depths = range(1, int(min(edges.deepest, 20)) + 1)
            strips = np.array([edges.strips(float(depth)) for depth in depths])[:, None]
            work = (whole + term) * (edges.scores + more * strips) - (1 + more) * term * edges.rows
            corner = edges.count * edges.sharing * room * _corner(more) * np.square(depths)[:, None]
            low, high = np.zeros((len(depths), len(EPOCHS))), np.full((len(depths), len(EPOCHS)), 4000.0)
            for _ in range(40):
                middle = (low + high) / 2
                done = _epoch(fast_words + middle, heavy, whole, float(term), 1 + more)
                less = EPOCHS * (done + corner) < work
                low, high = np.where(less, middle, low), np.where(less, high, middle)
            words = np.where(low < 1, 0.0, fast_words + EPOCHS * low - sums * edges.rows)
            best = max(best, float(words.max()))
    return best


def _epoch(budget: np.ndarray, heavy: float, whole: float, term: float, times: float) -> np.ndarray:
    """What an epoch does, by the definition of gradient rows, with a term for each held pair."""
    few, more = heavy * (budget / 3) ** 1.5, whole * ((np.sqrt(whole**2 + heavy**2 * budget) - whole) / heavy) ** 2
    held = np.where(heavy**2 * budget <= 3 * whole**2, few, more)
    return np.maximum(budget**2 / 4, times * (held + term * budget))


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_function_says_no_more_than_the_theorem(direction: str) -> None:
    workload = Workload(n=90, d=1, mask="window:30", direction=direction)
    for fast_words in (24, 42):
        for bound in mask_edges(workload, fast_words):
            assert 0 < bound.words <= _most_by_trying(workload, fast_words, sums="sums" in bound.theorem) + 1e-3


@laws
@given(windowed(shortest=-5, longest=1.5), st.floats(-3, 2))
def test_no_plan_moves_less(workload: Workload, memory: float) -> None:
    window = getattr(workload.mask, "width", workload.keys)
    fast_words = max(3, round(workload.d * window * 2.0**memory))
    moves_no_less(workload, fast_words, "mask-edges", "mask-edges-and-sums", "gradient-mask-edges")


@pytest.mark.parametrize(
    ("mask", "share", "heads", "times"),
    [("window:4096", 3 / 64, 1, 1.1), ("window:4096", 3 / 64, 8, 1.08), ("causal", 3 / 8, 1, 1.05)],
)
def test_edges_add_to_all_other_bounds_where_fast_memory_is_most_of_a_window_or_three_eighths_of_the_keys(
    mask: str, share: float, heads: int, times: float
) -> None:
    workload = Workload(n=65_536, d=64, mask=mask, heads=heads)
    bounds = bounds_for(workload, round(share * 65_536 * 64))
    others = (bound for bound in bounds if not bound.theorem.startswith("mask-edges"))
    edges = next(bound.words for bound in bounds if bound.theorem == "mask-edges")
    assert edges > times * largest_ordinary(others).words


def test_what_the_bound_counts_is_said_beside_it_and_in_the_glossary() -> None:
    alone, with_sums = mask_edges(Workload(n=64, d=4, mask="causal"), 64)
    assert "a tile across an edge of the mask holds pairs that no row needs" in alone.regime
    assert alone.covers == OWN_SUMS and with_sums.covers == OWN_ROW_SUMS
    glossary = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert "\nmask edge\n" in glossary and "`mask-edges`" in glossary


@pytest.mark.parametrize(("d", "more"), [(16, 1.02), (64, 1.005)])
def test_the_sums_of_rows_take_their_words_beside_edges_too(d: int, more: float) -> None:
    workload = Workload(n=65_536, d=d, mask="window:4096")
    alone, with_sums = mask_edges(workload, d * 2048)
    assert with_sums.words > more * alone.words


def test_masks_without_edges_have_no_such_bound() -> None:
    for workload in (Workload(n=64, d=8), Workload(n=1, d=8, mask="causal"), Workload(n=64, d=8, mask="window:1")):
        assert mask_edges(workload, 256) == ()


@laws
@given(st.integers(50, 5000), st.floats(0.05, 1), st.integers(1, 40), st.floats(-3, 1), st.sampled_from(Direction))
def test_strips_that_are_left_out_one_at_a_time_say_no_more_than_those_of_arrays(
    n: int, share: float, d: int, memory: float, direction: Direction
) -> None:
    assume(direction is not Direction.TRAINING)
    workload = Workload(n=n, d=d, mask=f"window:{round(share * n)}" if share < 1 else "causal", heads=6, kv_heads=2)
    ((band, _),) = workload.separate_patterns
    sides = {name: np.array([getattr(band, name)]) for name in ("rows", "keys", "left", "right", "shift")}
    several, alone = Edges(Band(**sides), np.array([3.0]), lambda counts: 6.0 * counts), edges_of(workload)
    fast_words = float(max(3, round(d * share * n * 2.0**memory)))
    for sums in {False, direction is Direction.FORWARD}:
        sizes = np.array([float(d)]), np.array([float(d)]), np.array([fast_words])
        together = raised_at_edges(np.zeros(1), several, sizes, direction, sums=sums)
        assert [edge_words(alone, float(d), float(d), fast_words, direction, sums=sums)] == together.tolist()
        assert together <= most_at_edges(several, sizes, direction, sums=sums)
