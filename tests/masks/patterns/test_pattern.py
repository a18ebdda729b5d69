"""Laws of every pattern, against walking the required scores one by one."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attenio.masks import BlockSparse
from attenio.masks.patterns import Band, BlockPattern, Pattern, PrefixedRequests

laws = settings(max_examples=26, deadline=None, derandomize=True)
length = st.integers(1, 13)


@st.composite
def bands(draw: st.DrawFn) -> Band:
    rows, keys = draw(length), draw(length)
    match draw(st.sampled_from(["dense", "causal", "window", "part"])):
        case "dense":
            return Band.dense(rows, keys)
        case "causal":
            return Band.causal(rows, keys)
        case "window":
            width = draw(st.integers(1, keys))
            right = draw(st.sampled_from([0, width - 1]))
            return Band(rows=rows, keys=keys, left=width - 1, right=right, shift=keys - rows)
        case _:
            left, right, shift = draw(st.integers(0, 14)), draw(st.integers(0, 14)), draw(st.integers(-20, 20))
            return Band(rows=rows, keys=keys, left=left, right=right, shift=shift)


@st.composite
def layouts(draw: st.DrawFn) -> BlockPattern:
    rows, keys = draw(length), draw(length)
    query_block, key_block = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    shape = (-(-rows // query_block), -(-keys // key_block))
    bits = draw(st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    blocks = np.array(bits).reshape(shape)
    layout = BlockSparse.from_array(blocks, query_block=query_block, key_block=key_block)
    return BlockPattern(rows=rows, keys=keys, layout=layout)


@st.composite
def prefixed(draw: st.DrawFn) -> PrefixedRequests:
    keys = draw(st.integers(1, 8))
    make = draw(st.sampled_from([Band.causal, Band.dense]))
    rows = draw(st.integers(1, keys))
    return PrefixedRequests(requests=draw(st.integers(1, 4)), prefix=draw(st.integers(1, 6)), own=make(rows, keys))


by_queries = bands() | layouts() | prefixed()
by_either = bands() | layouts()
by_rows = layouts() | prefixed()


@dataclass(frozen=True)
class Walk:
    """Every count, by looking at every score."""

    scores: NDArray[np.bool_]

    @classmethod
    def of(cls, pattern: Pattern) -> "Walk":
        return cls(pattern.required(0, pattern.rows, np.arange(pattern.keys)))

    def unions(self, tile: int) -> list[tuple[int, int]]:
        """Rows and needed keys of every query tile."""
        tiles = [self.scores[start : start + tile] for start in range(0, len(self.scores), tile)]
        return [(len(rows), int(rows.any(axis=0).sum())) for rows in tiles]


@laws
@given(pattern=by_queries, tile=st.integers(1, 15), width=st.integers(1, 15))
def test_counts_of_query_tiles_equal_a_walk_over_the_scores(pattern: Pattern, tile: int, width: int) -> None:
    walk = Walk.of(pattern)
    unions = walk.unions(tile)
    assert pattern.key_loads(tile) == sum(keys for _, keys in unions)
    assert pattern.tile_rows(tile, width) == sum(rows * -(-keys // width) for rows, keys in unions)
    assert pattern.tile_rows_floor(tile, width, pattern.key_loads(tile)) <= pattern.tile_rows(tile, width)
    assert pattern.live_rows(tile) == sum(rows for rows, keys in unions if keys)
    assert pattern.scores == walk.scores.sum()
    assert pattern.touched_rows == walk.scores.any(axis=1).sum()
    assert pattern.touched_keys == walk.scores.any(axis=0).sum()
    assert pattern.is_dense == walk.scores.all()


@laws
@given(pattern=by_either, tile=st.integers(1, 15), resident=st.integers(0, 15))
def test_counts_of_key_tiles_and_rows_equal_a_walk_over_the_scores(pattern: Pattern, tile: int, resident: int) -> None:
    scores = Walk.of(pattern).scores
    visits = sum(scores[:, start : start + tile].any(axis=1).sum() for start in range(0, pattern.keys, tile))
    assert pattern.row_visits(tile) == visits
    assert pattern.transposed.key_loads(tile) == visits
    assert pattern.scores_beyond(resident) == np.maximum(scores.sum(axis=1) - resident, 0).sum()


@laws
@given(pattern=by_queries, tiles=st.lists(st.integers(1, 15), min_size=2, max_size=4), width=st.integers(1, 15))
def test_arrays_of_tiles_give_what_each_tile_gives(pattern: Pattern, tiles: list[int], width: int) -> None:
    many, widths = np.array(tiles), np.arange(width, width + len(tiles))
    assert list(pattern.key_loads(many)) == [pattern.key_loads(tile) for tile in tiles]
    assert list(pattern.live_rows(many)) == [pattern.live_rows(tile) for tile in tiles]
    pairs = zip(tiles, widths.tolist(), strict=True)
    assert list(pattern.tile_rows(many, widths)) == [pattern.tile_rows(*pair) for pair in pairs]


@laws
@given(pattern=by_rows, tiles=st.lists(st.integers(1, 15), min_size=2, max_size=4), slots=st.integers(0, 16))
def test_slots_but_one_keep_what_two_tiles_need_and_all_where_every_key_has_one(
    pattern: Pattern, tiles: list[int], slots: int
) -> None:
    scores = Walk.of(pattern).scores

    def kept(tile: int, room: int) -> int:
        needed = [scores[start : start + tile].any(axis=0) for start in range(0, len(scores), tile)]
        keeping = room if room >= scores.any(axis=0).sum() else max(room - 1, 0)
        return sum(min(int((one & next_).sum()), keeping) for one, next_ in pairwise(needed))

    rooms = range(slots, slots + len(tiles))
    wanted = [kept(tile, room) for tile, room in zip(tiles, rooms, strict=True)]
    assert pattern.kept_loads(np.array(tiles), np.array(rooms)).tolist() == wanted
    assert [pattern.kept_loads(tile, room) for tile, room in zip(tiles, rooms, strict=True)] == wanted


@laws
@given(pattern=by_queries, start=st.integers(0, 40), height=st.integers(1, 40))
def test_needed_keys_are_the_keys_with_a_required_score(pattern: Pattern, start: int, height: int) -> None:
    start %= pattern.rows
    stop = min(start + height, pattern.rows)
    keys = np.arange(pattern.keys)
    needed = np.flatnonzero(pattern.required(start, stop, keys).any(axis=0))
    assert pattern.needed_keys(start, stop).tolist() == needed.tolist()
    assert pattern.widths(start, stop) == len(needed)
    assert pattern.widths(np.array([start, 0]), np.array([stop, stop]))[0] == len(needed)


@laws
@given(pattern=by_queries, tile=st.integers(1, 15))
def test_key_loads_never_fall_below_their_floors(pattern: Pattern, tile: int) -> None:
    for constant, area, lost in pattern.key_load_floors:
        assert tile * (pattern.key_loads(tile) - constant + lost * tile) >= area


@laws
@given(pattern=by_queries, least=st.integers(1, 15), most=st.integers(1, 15), row_weight=st.integers(-3, 3))
def test_the_least_count_over_a_range_lies_at_an_end_of_a_piece(
    pattern: Pattern, least: int, most: int, row_weight: int
) -> None:
    least, most = sorted((min(least, pattern.rows), min(most, pattern.rows)))
    if pattern.kinks is None:
        return
    ends = {least, most} | {x // i + j for x in pattern.kinks for i in range(1, pattern.rows + 1) for j in (0, 1)}
    words = {a: 2 * pattern.key_loads(a) + row_weight * pattern.live_rows(a) for a in range(least, most + 1)}
    smallest = min(words.values())
    first = min(a for a, value in words.items() if value == smallest)
    assert first in ends


@settings(laws, max_examples=14)
@given(pattern=layouts())
def test_a_layout_asked_for_many_tiles_counts_as_one_asked_for_few(pattern: BlockPattern) -> None:
    loads = {tile: BlockPattern(rows=pattern.rows, keys=pattern.keys, layout=pattern.layout).key_loads(tile)
             for tile in range(1, 40)}  # fmt: skip
    assert {tile: pattern.key_loads(tile) for tile in loads} == loads
    starts, stops = np.triu_indices(pattern.rows)
    fresh = BlockPattern(rows=pattern.rows, keys=pattern.keys, layout=pattern.layout)
    assert (pattern.widths(starts, stops + 1) == fresh.widths(starts, stops + 1)).all()


@pytest.mark.parametrize("count", ["row_visits", "scores_beyond"])
def test_stacked_requests_are_tiled_by_queries_only(count: str) -> None:
    pattern = PrefixedRequests(requests=2, prefix=3, own=Band.causal(2, 2))
    with pytest.raises(NotImplementedError, match="stacked requests"):
        getattr(pattern, count)(2)
    with pytest.raises(NotImplementedError, match="stacked requests"):
        _ = pattern.transposed


def test_stacked_requests_are_dense_or_causal() -> None:
    for own in (Band.causal(3, 2), Band(rows=4, keys=4, left=1, right=0, shift=0)):
        with pytest.raises(ValueError, match="stacked requests are dense, or causal"):
            PrefixedRequests(requests=2, prefix=3, own=own)


@laws
@given(rows=st.integers(2, 2**30), more=st.integers(0, 2**30), requests=st.integers(2, 2**20), data=st.data())
def test_counts_of_long_stacked_requests_in_arrays_equal_exact_integers(
    rows: int, more: int, requests: int, data: st.DataObject
) -> None:
    pattern = PrefixedRequests(requests=requests, prefix=2**30, own=Band.causal(rows, rows + more))
    tiles = data.draw(st.lists(st.integers(1, pattern.rows) | st.integers(1, 2**12), min_size=1, max_size=4))
    assert pattern.key_loads(np.array(tiles)).tolist() == [pattern.key_loads(tile) for tile in tiles]


def test_counts_of_very_many_stacked_requests_do_not_overflow() -> None:
    own = Band.causal(3, 2**29)
    pattern = PrefixedRequests(requests=2**6, prefix=2**29, own=own)
    by_request = PrefixedRequests(requests=1, prefix=2**29, own=own)
    # three rows per tile: tiles follow the requests
    assert pattern.key_loads(3) == 2**6 * by_request.key_loads(3)
    assert pattern.tile_rows(3, 1) == 2**6 * by_request.tile_rows(3, 1)
    assert pattern.scores == 2**6 * by_request.scores
