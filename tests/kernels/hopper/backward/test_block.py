"""Where blocks of the backward pass begin with their rows: each meets all of them, and neighbours add apart."""

from collections import Counter

import pytest
from gluon_interpreter import interpreted
from hypothesis import given
from hypothesis import strategies as st

service = interpreted("attenio.kernels.hopper.backward.block")
APART = service._APART


@given(st.integers(0, 99), st.integers(0, 20), st.integers(0, 40), st.sampled_from([64, 128]))
def test_a_block_begins_at_one_of_its_tiles_of_rows(tile, first, count, rows):
    start = service.staggered_start(tile, first * rows, (first + count) * rows, rows)
    assert (start - first * rows) % rows == 0
    assert start in range(first * rows, (first + max(count, 1)) * rows)


@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("first_tile", [0, 5, 64])
def test_neighbours_begin_apart_where_all_rows_see_their_keys(rows, first_tile):
    tiles = range(first_tile, first_tile + APART)
    assert len({service.staggered_start(tile, 0, APART * rows, rows) for tile in tiles}) == APART


@pytest.mark.parametrize("rows", [64, 128])
def test_of_causal_heads_two_blocks_at_most_begin_at_a_row(rows):
    """Keys of later tiles are seen from later rows on: such blocks would begin apart by themselves."""
    starts = Counter(service.staggered_start(tile, tile * 128, 2**14, rows) for tile in range(64))
    assert max(starts.values()) <= 2
