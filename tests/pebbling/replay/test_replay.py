"""Every dataflow's recorded run is a legal pebbling of attention's graph, at exactly the words that were counted."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attenio.bounds import bounds_for, largest_ordinary
from attenio.dataflows import execute
from attenio.errors import InvalidInput
from attenio.masks import BlockSparse, SharedPrefix, SlidingWindow
from attenio.pebbling import Board, MoveKind, Schedule, Variant, check
from attenio.pebbling.replay import replay
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.problems import Problems
from attenio.workload import Workload

from ...dataflows.laws import SMALL_TILES, masks, planned, required_matrix, sizes, some_tiles
from ..strategies import QUICK

ROOMY = 10**6
SOME, FEW = settings(QUICK, max_examples=14), settings(QUICK, max_examples=8)

every_dataflow = pytest.mark.parametrize("dataflow", Dataflow.towards("forward"), ids=lambda dataflow: dataflow.value)


@st.composite
def workloads(draw):
    queries, keys = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    kv_heads = draw(st.sampled_from([1, 1, 2]))
    workload = Workload(
        queries=queries,
        keys=keys,
        d=draw(st.integers(1, 3)),
        value_dim=draw(st.integers(1, 3)),
        heads=kv_heads * draw(st.sampled_from([1, 1, 2])),
        kv_heads=kv_heads,
        batch=draw(st.sampled_from([1, 1, 2])),
        mask=draw(masks(queries, keys)),
        dtype="fp16",
        accumulator=draw(st.sampled_from([None, None, "fp16", "fp32"])),
    )
    assume(required_matrix(workload).any(axis=1).all())
    return workload


@st.composite
def tiles_for(draw, workload, dataflow):
    if dataflow is Dataflow.RANK_ONE_TILING and draw(st.booleans()):
        outputs = {"output_rows": workload.queries, "output_columns": workload.value_dim}
        later = {"later_rows": workload.queries} if draw(st.booleans()) else {}
        return sizes(draw, query_tile=workload.queries, key_tile=workload.keys, **outputs, **later)
    if dataflow is Dataflow.SCORE_STATIONARY and Problems.separate(workload).counts.kind.keys_roll:
        return sizes(draw, whole_rows=workload.queries)
    if dataflow is Dataflow.SCORE_STATIONARY and draw(st.booleans()):
        return sizes(draw, resident_rows=workload.queries, key_tile=workload.keys)
    if dataflow is Dataflow.FLAT and draw(st.booleans()):
        return Tiles.of(query_tile=1, resident_keys=draw(st.integers(0, workload.keys)))
    return some_tiles(draw, workload, dataflow)


def recorded(workload, dataflow, tiles=None):
    return execute(planned(workload, dataflow, tiles or SMALL_TILES[dataflow], ROOMY), record=True)


@every_dataflow
@SOME
@given(workload=workloads(), data=st.data())
def test_a_run_is_a_legal_game_at_its_counted_words_on_its_counted_memory(dataflow, workload, data):
    tiles = data.draw(tiles_for(workload, dataflow))
    run = recorded(workload, dataflow, tiles)
    played = replay(run)
    is_computed_twice_only_for_other_columns(played.game, dataflow, workload, tiles)
    verdict = check(played.game, played.schedule)
    assert verdict.complaint is None
    assert (verdict.loaded_words, verdict.stored_words) == (run.trace.loaded_words, run.trace.stored_words)
    assert verdict.cost_words == run.moved_words
    assert played.game.red == run.peak_words
    floor = largest_ordinary(bounds_for(workload, played.game.red)).words
    assert floor <= verdict.cost_words
    assert played.game.graph.compulsory_words <= verdict.cost_words


@every_dataflow
@FEW
@given(workload=workloads(), data=st.data())
def test_at_every_move_values_fit_the_buffers_reserved_for_them_and_no_load_or_store_is_idle(dataflow, workload, data):
    played = replay(recorded(workload, dataflow, data.draw(tiles_for(workload, dataflow))))
    graph, board = played.game.graph, Board(played.game)
    is_input = (np.diff(graph.parent_starts) == 0) * graph.weights
    for move, reserved, for_inputs in zip(
        played.schedule, played.reserved_words.tolist(), played.reserved_input_words.tolist(), strict=True
    ):
        assert board.play(move) is None
        inputs = int(is_input @ np.frombuffer(board.red, dtype=np.uint8))
        assert inputs <= for_inputs
        assert board.red_words - inputs <= reserved - for_inputs
    assert board.red_words == 0
    lacks_no_load_and_no_store_of_an_output(played, data)


def is_computed_twice_only_for_other_columns(game, dataflow, workload, tiles):
    """A value is, and only where probabilities are made again: those by settled statistics from the third tile on."""
    chunks = {Dataflow.SQUARE_TILING: "depth_tile", Dataflow.RANK_ONE_TILING: "output_columns"}
    chunk = (chunks | {Dataflow.KEPT_KEYS: "value_columns"}).get(dataflow)
    again = chunk is not None and (1 + ("later_rows" in tiles)) * tiles[chunk] < workload.value_dim
    assert game.variant is (Variant.STANDARD if again else Variant.ONE_SHOT)
    assert game.sliding


def lacks_no_load_and_no_store_of_an_output(played, data):
    """A schedule without one of them is refused."""
    outputs = set(played.game.graph.outputs.tolist())
    moves = list(played.schedule)
    needed = [
        step
        for step, move in enumerate(moves)
        if move.kind is MoveKind.LOAD or (move.kind is MoveKind.STORE and move.vertex in outputs)
    ]
    lacking = data.draw(st.sampled_from(needed))
    assert not check(played.game, Schedule.of(moves[:lacking] + moves[lacking + 1 :])).legal


@every_dataflow
def test_the_graph_has_hidden_scores_only_where_the_dataflow_moves_what_comes_of_them(dataflow):
    workload = Workload(n=6, d=2, mask=SlidingWindow(width=2))
    graph = replay(recorded(workload, dataflow)).game.graph
    scores = sum(name.startswith("S[") and ";" not in name for name in graph.names)
    useful = sum(graph.names[v].startswith("S[") and ";" not in graph.names[v] for v in np.flatnonzero(graph.useful))
    assert useful == workload.scores == 11
    # Of score-stationary's tiles of 3 rows the second needs keys 2 to 5; row 5 needs none of their first run, 2 and 3.
    assert scores - useful == {Dataflow.STANDARD: 25, Dataflow.SCORE_STATIONARY: 1}.get(dataflow, 0)


def test_splits_that_a_row_needs_nothing_of_are_stored_and_loaded_all_the_same():
    layout = BlockSparse.from_array(np.array([[1, 0, 1], [1, 1, 0]]), query_block=1, key_block=2)
    workload = Workload(queries=2, keys=6, d=2, heads=2, kv_heads=1, mask=layout)
    tiles = Tiles.of(query_tile=2, head_tile=2, keys_per_split=2, key_tile=1)
    run = recorded(workload, Dataflow.SPLIT_KEYS, tiles)
    played = replay(run)
    names = played.game.graph.names
    idle = {names[v] for v in np.flatnonzero(~played.game.graph.useful) if names[v].startswith("P[")}
    assert idle == {"P[0,2]", "P[1,4]", "P[2,2]", "P[3,4]"}
    assert {"gap[0;split 1]", "gap[1;split 1]"} <= set(names)
    assert check(played.game, played.schedule).cost_words == run.moved_words


def test_a_shared_prefix_is_one_graph_in_which_requests_share_its_keys():
    workload = Workload(queries=1, keys=5, d=2, batch=3, mask=SharedPrefix(length=4))
    stacked = replay(recorded(workload, Dataflow.STACKED_GROUPS, Tiles.of(query_tile=3, head_tile=1, key_tile=2)))
    assert len(stacked.game.graph.inputs) == 3 * 2 + (4 + 3) * 4
    assert stacked.game.graph.compulsory_words == workload.compulsory_words
    separate = replay(recorded(workload, Dataflow.ATTENIO))
    assert len(separate.game.graph.inputs) == 3 * (2 + 5 * 4)
    assert separate.game.graph.names[0] == "batch 0 head 0 part 0: Q[0,0]"


@pytest.mark.parametrize("dataflow", [Dataflow.ATTENIO, Dataflow.STACKED_GROUPS], ids=lambda dataflow: dataflow.value)
@pytest.mark.parametrize("key_tile", [1, 2])
def test_from_three_runs_of_keys_on_attenio_fills_its_memory_to_the_last_word(dataflow, key_tile):
    workload = Workload(queries=4, keys=3 * key_tile, d=2)
    run = recorded(workload, dataflow, Tiles.of(query_tile=2, head_tile=1, key_tile=key_tile))
    played = replay(run)
    assert check(played.game, played.schedule).peak_red == run.peak_words


def test_a_row_that_needs_no_key_and_a_run_without_events_are_refused():
    causal = Workload(queries=3, keys=2, d=1, mask="causal")
    with pytest.raises(InvalidInput, match="row 0 needs no key under the mask causal: it stores zeros"):
        replay(recorded(causal, Dataflow.ATTENIO))
    plan = planned(Workload(n=2, d=1), Dataflow.ATTENIO, SMALL_TILES[Dataflow.ATTENIO], ROOMY)
    with pytest.raises(InvalidInput, match=r"no events to replay; run it with execute\(plan, record=True\)"):
        replay(execute(plan))
