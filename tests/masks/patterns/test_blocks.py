"""Laws of block patterns that short ones do not show: many rows in a block, many blocks, and counts that are kept."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.masks import BlockSparse
from attenio.masks.patterns import BlockPattern, blocks

laws = settings(max_examples=20, deadline=None, derandomize=True)


@st.composite
def patterns(draw: st.DrawFn) -> BlockPattern:
    rows, keys = draw(st.integers(1, 150)), draw(st.integers(1, 150))
    query_block, key_block = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    shape = (-(-rows // query_block), -(-keys // key_block))
    random = np.random.default_rng(draw(st.integers(0, 999)))
    layout = random.random(shape) < draw(st.sampled_from([0.02, 0.1, 0.5, 0.9]))
    mask = BlockSparse.from_array(layout, query_block=query_block, key_block=key_block)
    return BlockPattern(rows=rows, keys=keys, layout=mask)


def walked(pattern: BlockPattern, tile: int) -> list[tuple[int, int]]:
    """Rows and needed keys of every query tile, by looking at every score."""
    scores = pattern.required(0, pattern.rows, np.arange(pattern.keys))
    tiles = [scores[start : start + tile] for start in range(0, pattern.rows, tile)]
    return [(len(rows), int(rows.any(axis=0).sum())) for rows in tiles]


def agrees_with_a_walk(pattern: BlockPattern, tile: int, width: int) -> None:
    tiles = walked(pattern, tile)
    assert pattern.key_loads(tile) == sum(keys for _, keys in tiles)
    assert pattern.live_rows(tile) == sum(rows for rows, keys in tiles if keys)
    assert pattern.tile_rows(tile, width) == sum(rows * -(-keys // width) for rows, keys in tiles)


@laws
@given(pattern=patterns(), tile=st.integers(1, 160), width=st.integers(1, 160), across=st.booleans())
def test_counts_equal_a_walk_over_the_scores(pattern: BlockPattern, tile: int, width: int, across: bool) -> None:
    agrees_with_a_walk(pattern.transposed if across else pattern, tile, width)


@laws
@given(pattern=patterns())
def test_every_tile_asked_for_together_is_as_if_asked_for_alone(pattern: BlockPattern) -> None:
    tiles = np.arange(1, pattern.rows + 20)
    found = pattern.key_loads(tiles), pattern.live_rows(tiles), pattern.tile_rows(tiles, 7)
    for tile, loads, live, met in zip(tiles.tolist(), *found, strict=True):
        walk = walked(pattern, tile)
        assert (loads, live) == (sum(keys for _, keys in walk), sum(rows for rows, keys in walk if keys))
        assert met == sum(rows * -(-keys // 7) for rows, keys in walk)
    again = np.array([[3, 1], [pattern.rows, 3]])
    assert pattern.key_loads(again).tolist() == [[found[0][tile - 1] for tile in row] for row in again.tolist()]


@laws
@given(pattern=patterns(), across=st.booleans(), room=st.integers(0, 160))
def test_keys_kept_from_tile_to_tile_are_those_of_a_walk_and_no_more_than_is_known_at_once(
    pattern: BlockPattern, across: bool, room: int
) -> None:
    pattern = pattern.transposed if across else pattern
    scores = pattern.required(0, pattern.rows, np.arange(pattern.keys))
    tiles = np.arange(1, pattern.rows + 20)
    keeping = room if room >= scores.any(axis=0).sum() else max(room - 1, 0)
    walk = []
    for tile in tiles.tolist():
        needed = [scores[start : start + tile].any(axis=0) for start in range(0, pattern.rows, tile)]
        shared = [int((one & next_one).sum()) for one, next_one in pairwise(needed)]
        walk.append(sum(min(each, keeping) for each in shared))
    slots = np.full(len(tiles), room)
    assert pattern.kept_loads(tiles, slots).tolist() == walk
    assert [pattern.kept_loads(tile, room) for tile in tiles.tolist()] == walk
    most, enough = pattern.most_kept(tiles, slots), slots + pattern.keys + 1
    assert most is not None
    assert (most >= walk).all()
    assert pattern.most_kept(tiles, enough).tolist() == pattern.kept_loads(tiles, enough).tolist()


@pytest.mark.parametrize("limit", ["_MOST_IN_TABLE", "_MOST_KEPT", "_MOST_AT_FIRST", "_AT_ONCE"])
@settings(laws, max_examples=14)
@given(pattern=patterns(), tile=st.integers(1, 160), width=st.integers(1, 160))
def test_counts_do_not_depend_on_what_is_kept_or_done_at_once(
    limit: str, pattern: BlockPattern, tile: int, width: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, limit, 1)
        agrees_with_a_walk(pattern, tile, width)
        tiles = np.arange(1, 30)
        many, kept = pattern.tile_rows(tiles, width), pattern.kept_loads(tiles, width)
    assert many.tolist() == [pattern.tile_rows(tile, width) for tile in tiles.tolist()]
    afresh = replace(pattern)  # nothing of it is known yet, and limits are as they were
    assert kept.tolist() == [afresh.kept_loads(tile, width) for tile in tiles.tolist()]


def test_exchanging_twice_changes_nothing() -> None:
    layout = BlockSparse.from_array(np.eye(3, 5, dtype=bool), query_block=2, key_block=3)
    pattern = BlockPattern(rows=6, keys=14, layout=layout)
    assert pattern.transposed != pattern
    assert pattern.transposed.transposed == pattern


def test_a_symmetric_layout_is_its_own_transpose_and_counts_alike_both_ways() -> None:
    random = np.random.default_rng(3).random((7, 7)) < 0.4
    layout = BlockSparse.from_array(random | random.T, query_block=4)
    pattern = BlockPattern(rows=26, keys=26, layout=layout)
    assert pattern.transposed is pattern
    exchanged = BlockPattern(rows=26, keys=26, layout=layout, exchanged=True)
    assert [pattern.key_loads(tile) for tile in range(1, 27)] == [exchanged.key_loads(tile) for tile in range(1, 27)]


def test_unions_of_the_longest_sequences_do_not_overflow() -> None:
    block = 2**28
    mask = BlockSparse.from_array(np.ones((4, 4), dtype=bool), query_block=block)
    pattern = BlockPattern(rows=2**30, keys=2**30, layout=mask)
    assert pattern.scores == 2**60
    assert pattern.key_loads(2**30) == 2**30
    assert pattern.key_loads(block) == 2**32
    assert pattern.key_loads(1) == 2**60
    assert pattern.tile_rows(3, 2**29) == 2**31
    assert pattern.widths(1, 2**30) == 2**30
