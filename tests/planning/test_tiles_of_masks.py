"""Tiles of forms for other masks are refused in words of the mask that was named, with what to give."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import DoesNotFit, InvalidInput
from attenio.planning import best_plan_for
from attenio.planning.costs import cost, tile_names
from attenio.planning.plan import Dataflow, Tiles
from attenio.planning.problems.told_mask import told_mask
from attenio.workload import Workload

from .strategies import workloads

LAWS = settings(max_examples=60, deadline=None, derandomize=True)


def refused(workload: Workload, dataflow: str, **sizes: int) -> str:
    with pytest.raises(InvalidInput) as problem:
        cost(workload, dataflow, Tiles.of(**sizes))
    return str(problem.value)


@pytest.mark.parametrize(
    ("dataflow", "sizes"),
    [
        ("kept-row-gradients", {"first_keys": 1, "standing_rows": 1}),
        ("kept-row-gradients", {"last_keys": 1, "key_tile": 1, "standing_sums": 1, "exchanged_positions": 0}),
        ("kept-row-gradients", {"ring_rows": 1}),
        ("kept-row-gradients", {"rolling_keys": 1, "kept_rows": 1}),
        ("kept-row-gradients", {"masked_turn_rows": 1, "key_tile": 1, "own_row_sums": 1}),
        ("query-stationary", {"masked_turn_keys": 1, "query_tile": 1, "own_key_sums": 1}),
        ("kept-keys", {"rolling_rows": 1, "kept_keys": 1}),
        ("score-stationary", {"whole_rows": 1}),
    ],
)
def test_a_causal_mask_of_one_query_is_said_to_be_dense(dataflow: str, sizes: dict[str, int]) -> None:
    workload = Workload(queries=1, keys=9, d=4, mask="causal", direction=Dataflow.named(dataflow).direction)
    said = refused(workload, dataflow, **sizes)
    assert "the mask is causal, which is dense with one query; give it " in said
    first = tile_names(Dataflow.named(dataflow))[0]
    assert said.endswith(f"give it {', '.join(first)}")
    assert next(iter(sizes)) in said or "a ring of rows" in said


def test_an_approximation_of_one_query_too() -> None:
    workload = Workload(queries=1, keys=9, d=4, mask="causal", tolerance=0.05, entry_bound=0.4)
    with pytest.raises((InvalidInput, DoesNotFit), match="is causal, which is dense with one query; use feature-state"):
        best_plan_for(workload, 10**5, dataflow="window-and-features")


@LAWS
@given(workload=workloads(longest=6))
def test_the_mask_is_told_as_it_was_named(workload: Workload) -> None:
    assert told_mask(workload).startswith(f"the mask is {workload.mask}")
    dense = all(pattern.is_dense for pattern, _ in workload.separate_patterns)
    assert ("which is dense" in told_mask(workload)) == (dense and str(workload.mask) != "dense")


def test_rings_say_how_many_to_give() -> None:
    workload = Workload(n=12, d=4, mask="window:5", direction="backward")
    assert refused(workload, "query-stationary", ring_keys=3) == "ring_keys is 3, and a row needs 5 keys; give 5"
    assert refused(workload, "kept-row-gradients", ring_rows=1).endswith("rows need a key and the next one; give 4")


@pytest.mark.parametrize(
    ("dataflow", "names"),
    [
        ("kept-row-gradients", ("masked_turn_rows", "key_tile", "own_row_sums")),
        ("query-stationary", ("masked_turn_keys", "query_tile", "own_key_sums")),
    ],
)
@LAWS
@given(data=st.data(), n=st.integers(2, 12), mask=st.sampled_from(["causal", "window:3", "window:4:both"]))
def test_what_is_missing_to_turns_is_said_and_is_enough(
    dataflow: str, names: tuple[str, ...], data: st.DataObject, n: int, mask: str
) -> None:
    if mask != "causal" and n < int(mask[7]):
        return
    workload = Workload(n=n, d=2, heads=2, kv_heads=1, mask=mask, direction="backward")
    sizes = dict(zip(names, (data.draw(st.integers(1, n)), data.draw(st.integers(1, n)), 0), strict=True))
    for _ in range(3):  # a tile first, where that is too small, then its sums
        try:
            assert cost(workload, dataflow, Tiles.of(**sizes)).moved_words > 0
            return
        except InvalidInput as problem:
            told = re.fullmatch(r"(\w+) is \d+, and .*; give (?:at least )?(\d+)", str(problem))
            if told is None:
                assert "are for one causal or window mask whose first row needs the first key" in str(problem)
                return
            assert int(told[2]) > sizes[told[1]]
            sizes[told[1]] = int(told[2])
    raise AssertionError(sizes)


def test_a_number_is_said_where_all_cannot_be_tried() -> None:
    workload = Workload(n=10**5, d=2, mask="causal", direction="backward")
    sizes = {"masked_turn_rows": 1, "key_tile": 500}
    said = refused(workload, "kept-row-gradients", **sizes, own_row_sums=0)
    enough = int(said.rpartition("give ")[2].replace(",", ""))
    assert cost(workload, "kept-row-gradients", Tiles.of(**sizes, own_row_sums=enough)).moved_words > 0
