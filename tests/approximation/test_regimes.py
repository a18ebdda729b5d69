"""The map: the best way is the best of those possible, more memory never hurts, and linear ways stay linear."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.approximation.regimes import Setting, Way, regime_map, regime_of, words_of_ways
from attenio.bounds.approximate import monomial_epochs
from attenio.errors import DoesNotFit
from attenio.workload import Workload


def setting(n: int, fast_words: int, radius: float = 0.5, d: int = 64) -> Setting:
    return Setting(n=n, d=d, fast_words=fast_words, radius=radius, tolerance=1e-2)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([2**12, 2**16, 2**20]), st.sampled_from([2**13, 2**16, 2**18]), st.sampled_from([0.1, 0.5, 2.0]))
def test_nothing_possible_moves_less_than_the_answer(n: int, fast_words: int, radius: float) -> None:
    found = regime_of(setting(n, fast_words, radius))
    assert found.words[found.way] == min(found.words.values())
    assert found.words[found.way] >= 4 * n * 64
    larger = regime_of(setting(n, 2 * fast_words, radius))
    assert larger.words[larger.way] <= found.words[found.way]


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 20), st.integers(2, 48), st.integers(1, 4), st.integers(4, 18))
def test_no_way_beats_the_bound_of_its_class(log_n: int, d: int, degree: int, log_fast: int) -> None:
    where = setting(2**log_n, 2**log_fast, d=d)
    bound = monomial_epochs(Workload(n=where.n, d=d), degree, where.fast_words)
    assert bound is not None
    for way, words in words_of_ways(where, degree).items():
        assert way is Way.EXACT or words >= bound.words


def test_approximate_ways_are_linear_and_exact_ones_quadratic() -> None:
    for way, fast, slope in ((Way.FEATURE_STATE, 2**18, 1.0), (Way.VALUE_COLUMNS, 2**16, 1.0), (Way.EXACT, 2**14, 2.0)):
        few, many = (words_of_ways(setting(n, fast), 2)[way] for n in (2**14, 2**20))
        assert math.log(many / few) / math.log(64) == pytest.approx(slope, abs=0.02)


def test_the_map_covers_every_way() -> None:
    points = [setting(2**20, 2**18), setting(2**20, 2**16), setting(2**20, 2**11), setting(2**12, 2**16, 8.0)]
    assert [found.way for found in regime_map(points)] == [
        Way.FEATURE_STATE,
        Way.VALUE_COLUMNS,
        Way.FEATURE_BLOCKS,
        Way.EXACT,
    ]


def test_a_memory_that_holds_nothing_is_refused() -> None:
    with pytest.raises(DoesNotFit, match="hold no row"):
        regime_of(setting(1024, 64, 8.0))
