import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attenio.pebbling.graphs.attention import Head, attention
from attenio.pebbling.replay.grouping import grouping
from attenio.planning.plan import Dataflow, Tiles

from ...dataflows.laws import SMALL_TILES
from ..strategies import QUICK

WINDOW = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1]], dtype=bool)


@pytest.mark.parametrize("dataflow", Dataflow.towards("forward"), ids=lambda dataflow: dataflow.value)
@QUICK
@given(required=arrays(np.bool_, st.tuples(st.integers(1, 6), st.integers(1, 6))))
def test_every_grouping_makes_a_graph_whose_outputs_need_the_required_scores_and_no_others(dataflow, required):
    required[~required.any(axis=1), 0] = True
    rows, keys = required.shape
    found = grouping(dataflow, SMALL_TILES[dataflow], required)
    head = Head(rows=rows, keys=keys, d=1, required=required)
    graph = attention(head, softmax=found.softmax, runs=found.runs, splits=found.splits, idle=found.idle)
    useful = {graph.names[v] for v in np.flatnonzero(graph.useful)}
    assert {name for name in useful if name.startswith("S[")} == {f"S[{i},{j}]" for i, j in np.argwhere(required)}


def test_runs_are_cut_from_the_keys_of_the_tile_except_in_flash_attention_1_where_they_lie_on_a_grid():
    tiles = Tiles.of(query_tile=2, key_tile=2)
    assert grouping(Dataflow.ATTENIO, tiles, WINDOW).runs == [[[0, 1]], [[1], [2]], [[2, 3]], [[3]]]
    assert grouping(Dataflow.FLASH_ATTENTION_1, tiles, WINDOW).runs == [[[0, 1]], [[1], [2]], [[2, 3]], [[3]]]
    shifted = WINDOW[1:]
    assert grouping(Dataflow.ATTENIO, tiles, shifted).runs == [[[1, 2]], [[2], [3]], [[3]]]
    assert grouping(Dataflow.FLASH_ATTENTION_1, tiles, shifted).runs == [[[1], [2]], [[2, 3]], [[3]]]


def test_a_row_is_idle_where_its_tile_stores_a_result_it_has_no_part_in():
    one = Tiles.of(query_tile=2, key_tile=1)
    assert grouping(Dataflow.SCORE_STATIONARY, one, WINDOW).idle == [[], [0], [], [2]]
    splits = Tiles.of(query_tile=2, head_tile=1, keys_per_split=1, key_tile=1)
    found = grouping(Dataflow.SPLIT_KEYS, splits, WINDOW)
    assert (found.idle, found.splits) == ([[2], [0], [], [2]], [[1, 1], [1, 1], [1, 1], [1]])
    assert grouping(Dataflow.STANDARD, Tiles.of(), WINDOW).idle == [[2, 3], [0, 3], [0, 1], [0, 1, 2]]


def test_heads_that_share_keys_repeat_the_rows():
    found = grouping(Dataflow.STACKED_GROUPS, Tiles.of(query_tile=2, key_tile=2), WINDOW)
    assert found.stacked(2).runs == [*found.runs, *found.runs]
    assert found.stacked(2).idle is None
