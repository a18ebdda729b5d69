import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.masks.patterns import Band, PrefixedRequests
from attenio.planning.search import stacked_requests
from attenio.planning.search.stacked_requests import best_request_tile

LAWS = settings(max_examples=26, deadline=None, derandomize=True)


@st.composite
def requests(draw: st.DrawFn, longest: int) -> PrefixedRequests:
    rows = draw(st.integers(2, longest) | st.sampled_from([12, 60, 64, 96, 120]))
    causal = draw(st.sampled_from([True, True, False]))
    keys = rows + draw(st.sampled_from([0, 0, 1]) | st.integers(0, 3 * rows)) if causal else draw(st.integers(1, 99))
    own = Band.causal(rows, keys) if causal else Band.dense(rows, keys)
    prefix = draw(st.integers(1, 5) | st.integers(1, 9 * rows))
    return PrefixedRequests(requests=draw(st.integers(2, 9) | st.integers(2, 400)), prefix=prefix, own=own)


def best_of_all(pattern: PrefixedRequests, most: int) -> tuple[int, int]:
    tiles = np.arange(1, most + 1)
    keys = pattern.key_loads(tiles)
    first = int(np.argmin(keys))
    return int(keys[first]), int(tiles[first])


@LAWS
@given(pattern=requests(longest=200), data=st.data())
def test_no_tile_of_stacked_requests_reads_less_and_no_smaller_one_as_little(
    pattern: PrefixedRequests, data: st.DataObject
) -> None:
    most = data.draw(st.integers(1, min(pattern.rows, 3 * int(pattern.own.rows) + 9)))
    with pytest.MonkeyPatch.context() as patch:
        # short ranges are tried tile by tile: without that even these go through pieces and shells
        patch.setattr(stacked_requests, "_SHORT", data.draw(st.sampled_from([2, 8])))
        patch.setattr(stacked_requests, "_AT_ONCE", data.draw(st.sampled_from([4, 32, 768])))
        assert best_request_tile(pattern, most) == best_of_all(pattern, most)


@pytest.mark.parametrize("rows", [16_381, 16_384, 15_120])
@pytest.mark.parametrize("most", [4000, 15_000, 28_800, 100_000])
def test_the_best_tile_of_long_requests_is_the_best_of_a_full_enumeration(rows: int, most: int) -> None:
    for count, prefix, more in ((3, 100, 0), (500, 16_384, 0), (16_384, 16_384, 7)):
        pattern = PrefixedRequests(requests=count, prefix=prefix, own=Band.causal(rows, rows + more))
        most = min(most, pattern.rows)
        assert best_request_tile(pattern, most) == best_of_all(pattern, most)


@pytest.mark.parametrize("rows", [2**14, 2**20, 2**23 - 3])
@pytest.mark.parametrize("count", [2, 1000, 10**6])
def test_few_tiles_are_counted_however_long_and_many_the_requests(
    rows: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []
    plain = PrefixedRequests.key_loads

    def counting(pattern: PrefixedRequests, tile: object) -> object:
        counted.append(np.size(tile))  # type: ignore[arg-type]
        return plain(pattern, tile)

    monkeypatch.setattr(PrefixedRequests, "key_loads", counting)
    for prefix, most in ((100, 960), (2**14, 28_800), (2**20, 10**6)):
        counted.clear()
        best_request_tile(PrefixedRequests(requests=count, prefix=prefix, own=Band.causal(rows, rows)), most)
        assert sum(counted) < 20_000
