"""Laws of reordering: the same scores in another place, the same numbers out, counted like any other mask."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.dataflows import execute, random_inputs
from attenio.errors import InvalidInput, MissingExtra
from attenio.masks import BlockSparse
from attenio.planning import best_plan_for
from attenio.reference import attention
from attenio.reordering import Method, reorder
from attenio.reordering.reorder import _ones, _packed, greedy_order
from attenio.workload import Workload

laws = settings(max_examples=20, deadline=None, derandomize=True)
methods = st.sampled_from(list(Method))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    queries, keys = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    query_block, key_block = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    random = np.random.default_rng(draw(st.integers(0, 999)))
    shape = -(-queries // query_block), -(-keys // key_block)
    layout = random.random(shape) < draw(st.sampled_from([0.05, 0.3, 0.8]))
    mask = BlockSparse.from_array(layout, query_block=query_block, key_block=key_block)
    return Workload(queries=queries, keys=keys, d=3, value_dim=2, heads=2, kv_heads=1, mask=mask)


def required(workload: Workload) -> np.ndarray:
    ((pattern, _),) = workload.separate_patterns
    return pattern.required(0, pattern.rows, np.arange(pattern.keys))


@laws
@given(workload=workloads(), method=methods, rows=st.integers(1, 20), keys=st.none() | st.integers(1, 20))
def test_every_score_moves_with_its_query_and_its_key(
    workload: Workload, method: Method, rows: int, keys: int | None
) -> None:
    found = reorder(workload, method, rows_per_tile=rows, keys_per_tile=keys)
    assert sorted(found.query_order.tolist()) == list(range(workload.queries))
    assert sorted(found.key_order.tolist()) == list(range(workload.keys))
    assert (required(found.workload) == required(workload)[np.ix_(found.query_order, found.key_order)]).all()
    assert found.workload.compulsory_words == workload.compulsory_words


@laws
@given(workload=workloads(), method=methods, fast_words=st.integers(60, 400))
def test_a_reordered_run_gives_the_same_numbers_back(workload: Workload, method: Method, fast_words: int) -> None:
    found = reorder(workload, method, rows_per_tile=8)
    inputs = random_inputs(workload)
    plan = best_plan_for(found.workload, fast_words)
    q, k, v = (
        inputs.q[:, :, found.query_order],
        inputs.k[:, :, found.key_order],
        inputs.v[:, :, found.key_order],
    )
    run = execute(plan, inputs=(q, k, v))
    assert run.moved_words == plan.moved_words
    np.testing.assert_allclose(run.output[:, :, found.query_places], attention(*inputs, workload), atol=4e-3)


@laws
@given(workload=workloads())
def test_the_natural_order_changes_nothing(workload: Workload) -> None:
    found = reorder(workload, "natural", rows_per_tile=4)
    assert found.workload == workload
    assert found.query_blocks == tuple(range(len(found.query_blocks)))


def hidden_window() -> tuple[Workload, Workload]:
    """A window of blocks in a random order, and in its own."""
    blocks, random = np.arange(48), np.random.default_rng(3)
    window = np.abs(blocks[:, None] - blocks) <= 2
    shuffled = window[random.permutation(48)][:, random.permutation(48)]
    hidden, plain = (BlockSparse.from_array(layout, query_block=4) for layout in (shuffled, window))
    return Workload(n=192, d=4, mask=hidden), Workload(n=192, d=4, mask=plain)


def test_cuthill_mckee_finds_a_hidden_window() -> None:
    shuffled, plain = hidden_window()
    found = reorder(shuffled, "cuthill-mckee", rows_per_tile=16)
    assert best_plan_for(found.workload, 300).moved_words <= 1.05 * best_plan_for(plain, 300).moved_words
    assert best_plan_for(shuffled, 300).moved_words > 1.5 * best_plan_for(plain, 300).moved_words


@pytest.mark.parametrize("method", ["greedy", "chained"])
def test_greedy_orders_bring_most_of_a_hidden_window_together(method: str) -> None:
    shuffled, _ = hidden_window()
    found = reorder(shuffled, method, rows_per_tile=16)
    assert best_plan_for(found.workload, 300).moved_words < 0.75 * best_plan_for(shuffled, 300).moved_words


@laws
@given(seed=st.integers(0, 999), rows=st.integers(1, 9), tile=st.integers(1, 5))
def test_a_greedy_tile_takes_the_row_that_needs_the_fewest_new_keys(seed: int, rows: int, tile: int) -> None:
    blocks = np.random.default_rng(seed).random((rows, 70)) < 0.1
    order = greedy_order(blocks, tile).tolist()
    for place, row in enumerate(order):
        tile_rows, rest = order[place - place % tile : place], order[place:]
        held = blocks[tile_rows].any(axis=0)
        new = {other: int((blocks[other] & ~held).sum()) if tile_rows else 0 for other in rest}
        assert row == min(rest, key=lambda other: (new[other], -int(blocks[other].sum()), other))


def test_bits_are_counted_the_same_with_an_older_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = np.random.default_rng(0).random((5, 130)) < 0.5
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    assert _ones(_packed(blocks)).tolist() == blocks.sum(axis=1).tolist()


def test_a_last_block_that_is_short_stays_the_last() -> None:
    layout = np.array([[0, 0, 1], [1, 0, 0], [1, 1, 1]])
    workload = Workload(n=11, d=1, mask=BlockSparse.from_array(layout, query_block=4))
    found = reorder(workload, "greedy", rows_per_tile=8)
    assert (found.query_blocks[-1], found.key_blocks[-1]) == (2, 2)


def test_only_blocks_can_be_reordered_and_only_by_a_known_method() -> None:
    with pytest.raises(InvalidInput, match="mask causal cannot be reordered by blocks; use a block-sparse mask"):
        reorder(Workload(n=8, d=1, mask="causal"), "greedy", rows_per_tile=2)
    with pytest.raises(
        InvalidInput, match=r"unknown method of reordering 'grady'; did you mean greedy\? choose one of natural"
    ):
        reorder(Workload(n=256, d=1, mask="strided:64"), "grady", rows_per_tile=2)
    with pytest.raises(InvalidInput, match="rows per tile is 0"):
        reorder(Workload(n=256, d=1, mask="strided:64"), "greedy", rows_per_tile=0)


def test_cuthill_mckee_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(MissingExtra, match="the Cuthill-McKee order needs the 'pebble' extra"):
        reorder(Workload(n=256, d=1, mask="strided:64"), "cuthill-mckee", rows_per_tile=2)
