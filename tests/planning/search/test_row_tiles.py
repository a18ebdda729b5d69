from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.planning.problems import Problems
from attenio.planning.search.row_tiles import RowWords, _candidates, best_row_tile, piece_ends
from attenio.workload import Workload

from ..strategies import workloads

LAWS = settings(max_examples=26, deadline=None, derandomize=True)


@LAWS
@given(
    workload=workloads(longest=70),
    most=st.integers(1, 80),
    live=st.integers(0, 5),
    loads=st.integers(1, 9),
    visits=st.sampled_from([0, 0, 1, 7]),
)
def test_no_tile_beats_the_best_and_no_smaller_one_equals_it(
    workload: Workload, most: int, live: int, loads: int, visits: int
) -> None:
    for problems in (Problems.separate(workload), Problems.stacked(workload)):
        split = -(-problems.counts.most_keys // 2)
        form = RowWords(problems=problems, live=live, loads=loads, visits=visits, split=split)
        words = {tile: form.words(tile) for tile in range(1, min(most, problems.counts.most_rows) + 1)}
        fewest = min(words.values())
        found, tile = best_row_tile(form, most)
        assert found == words[tile] == fewest
        assert tile == min(tile for tile in words if words[tile] == fewest) or form.kinks is None
        for tile, count in words.items():
            assert form.floor(tile) <= count
            assert form.least_tile(count) <= tile


@pytest.mark.parametrize("mask", ["causal", "window:1000", "window:999:both"])
@pytest.mark.parametrize("most", [3, 77, 1985, 40_000, 100_000])
def test_the_best_tile_of_a_long_sequence_is_the_best_of_a_full_enumeration(mask: str, most: int) -> None:
    problems = Problems.separate(Workload(queries=65_537, keys=65_999, d=1, mask=mask))
    form = RowWords(problems=problems, live=64, loads=128)
    tiles = np.arange(1, min(most, 65_537) + 1)
    words = form.words_of(tiles)
    first = int(np.argmin(words))
    assert best_row_tile(form, most) == (int(words[first]), int(tiles[first]))


@LAWS
@given(data=st.data())
def test_the_best_tile_of_a_shape_that_is_almost_all_masked_is_the_best_of_a_full_enumeration(
    data: st.DataObject,
) -> None:
    keys = data.draw(st.integers(1, 60))
    queries = data.draw(st.integers(60, 9000))
    width = data.draw(st.integers(1, keys))
    mask = data.draw(st.sampled_from(["causal", f"window:{width}", f"window:{width}:both"]))
    if data.draw(st.booleans()):
        queries, keys = keys, queries
        mask = f"window:{width}"
    for problems in (
        across := Problems.separate(Workload(queries=queries, keys=keys, d=1, mask=mask)),
        across.transposed,
    ):
        form = RowWords(problems=problems, live=data.draw(st.integers(0, 9)), loads=data.draw(st.integers(1, 9)))
        tiles = np.arange(1, problems.counts.most_rows + 1)
        words = form.words_of(tiles)
        most = data.draw(st.integers(1, problems.counts.most_rows))
        first = int(np.argmin(words[:most]))
        assert best_row_tile(form, most) == (int(words[first]), int(tiles[first]))


@pytest.mark.parametrize("queries", [118_000_000, 10**6 + 3])
@pytest.mark.parametrize("mask", ["causal", "window:5", "window:30:both"])
@pytest.mark.parametrize("most", [44, 100, 3000, 70_000])
def test_the_best_tile_among_very_many_rows_that_need_no_key_is_the_best_of_a_full_enumeration(
    queries: int, mask: str, most: int
) -> None:
    for live, loads in ((64, 32), (1, 9), (500, 1)):
        problems = Problems.separate(Workload(queries=queries, keys=41, d=1, mask=mask))
        form = RowWords(problems=problems, live=live, loads=loads)
        tiles = np.arange(1, most + 1)
        words = form.words_of(tiles)
        first = int(np.argmin(words))
        assert best_row_tile(form, most) == (int(words[first]), int(tiles[first]))


@settings(LAWS, max_examples=20)
@given(workload=workloads(longest=70), most=st.integers(1, 80), data=st.data())
def test_a_limit_leaves_out_only_tiles_that_exceed_it(workload: Workload, most: int, data: st.DataObject) -> None:
    form = RowWords(problems=Problems.stacked(workload), live=2, loads=3)
    words, tile = best_row_tile(form, most)
    limit = words + data.draw(st.integers(-3, 3))
    found, any_tile = best_row_tile(form, most, limit)
    assert found == form.words(any_tile)
    assert any_tile <= most
    assert (found, any_tile) == (words, tile) if limit >= words else found > limit


@pytest.mark.parametrize("exponent", [12, 16, 20, 24, 28, 30])
def test_no_more_tiles_are_candidates_than_a_few_roots_of_the_rows(exponent: int) -> None:
    kinks = (2**exponent - 1, 2**exponent - 43)
    count = sum(len(tiles) for _, tiles in _candidates(kinks, 1, 2**exponent))
    assert count <= 16 * 2 ** (exponent // 2)


def test_weights_beyond_64_bits_are_compared_exactly() -> None:
    problems = Problems.separate(Workload(queries=300, keys=200, d=1, mask="causal"))
    huge = RowWords(problems=problems, live=2**80, loads=2**81)
    small = RowWords(problems=problems, live=1, loads=2)
    words, tile = best_row_tile(small, 90)
    assert best_row_tile(huge, 90) == (2**80 * words, tile)


@LAWS
@given(kinks=st.sets(st.integers(1, 200), min_size=1, max_size=3), least=st.integers(1, 60), more=st.integers(0, 60))
def test_piece_ends_lie_in_the_range_and_include_its_ends(kinks: set[int], least: int, more: int) -> None:
    ends = piece_ends(tuple(kinks), least, least + more)
    if ends is not None:
        assert isinstance(ends, list)
        expected = {x // i + j for x in kinks for i in range(1, x + 1) for j in (0, 1)} | {least, least + more}
        assert ends == sorted(end for end in expected if least <= end <= least + more)


@LAWS
@given(x=st.integers(10**6, 10**9), least=st.integers(1, 10**5))
def test_many_piece_ends_are_the_same_as_few_at_a_time(x: int, least: int) -> None:
    root = isqrt(x)
    least, most = root + least, 8 * (root + least)
    ends = piece_ends((x, x - 7), least, most)
    assert ends is not None
    expected = {y // i + j for y in (x, x - 7) for i in range(1, y // least + 1) for j in (0, 1)} | {least, most}
    assert {int(end) for end in ends} >= {end for end in expected if least <= end <= most}
