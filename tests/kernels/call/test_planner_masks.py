"""From a mask to what queries may see and back: the same scores are required, or a note says that they are not."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.call.test_masking import masked

from attenio import Workload, attention, explain
from attenio.errors import InvalidInput
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.masking import visibility_of
from attenio.kernels.call.planner_masks import arguments_of, nearest_mask
from attenio.masks import BlockSparse, Causal, Dense, Documents, SharedPrefix, SlidingWindow
from attenio.reference import attention as reference

laws = settings(max_examples=26, deadline=None, derandomize=True)


def required(mask, queries, keys):
    """The scores that a mask requires, by the definition: with equal scores, every key seen has a weight."""
    q, k, one_hot = torch.zeros(1, 1, queries, 1), torch.zeros(1, 1, keys, 1), torch.eye(keys)[None, None]
    workload = Workload(queries=queries, keys=keys, d=1, value_dim=keys, mask=mask)
    return torch.from_numpy(reference(q.numpy(), k.numpy(), one_hot.numpy(), workload))[0, 0] > 0


def seen_by(queries, keys, **arguments):
    """The scores that a call of attention uses."""
    q, k, one_hot = torch.zeros(1, 1, queries, 1), torch.zeros(1, 1, keys, 1), torch.eye(keys)[None, None]
    return attention(q, k, one_hot, **arguments)[0, 0] > 0


def visible(queries, keys, asked):
    return visibility_of(torch.empty(1, 1, queries, 1), torch.empty(1, 1, keys, 1), asked, (1,))


def said(mask, queries, keys):
    return arguments_of(mask, torch.empty(queries, 1), torch.empty(keys, 1), CallArguments())


@laws
@given(masked())
def test_from_a_mask_to_what_is_visible_and_back_the_same_scores_are_required(case):
    queries, keys, mask, _ = case
    seen = visible(queries, keys, said(mask, queries, keys))
    found, notes = nearest_mask(seen, queries=queries, keys=keys)
    assert notes == []
    assert torch.equal(required(found, queries, keys), required(mask, queries, keys))
    assert nearest_mask(visible(queries, keys, said(found, queries, keys)), queries=queries, keys=keys) == (found, [])


@pytest.mark.parametrize("causal", [True, False])
def test_masks_that_no_other_mask_equals_come_back_as_they_are(causal):
    layout = torch.tensor([[1, 0], [1, 1]]).numpy()
    for mask in (
        Dense(),
        Causal(),
        SlidingWindow(width=4, causal=causal),
        Documents(lengths=(2, 6, 2), key_lengths=(5, 1, 9), causal=causal),
        BlockSparse.from_array(layout, query_block=5, key_block=8),
    ):
        assert nearest_mask(visible(10, 15, said(mask, 10, 15)), queries=10, keys=15) == (mask, [])
    prefix = SharedPrefix(length=4, causal=causal)
    assert nearest_mask(visible(10, 15, said(prefix, 10, 15)), queries=10, keys=15, prefix=4) == (prefix, [])


@st.composite
def restricted(draw):
    """Lengths, and arguments that hold together."""
    own = draw(st.lists(st.integers(0, 8), min_size=1, max_size=4).filter(any))
    theirs = draw(st.one_of(st.just(own), st.lists(st.integers(0, 8), min_size=len(own), max_size=len(own))))
    queries, keys = sum(own), max(1, sum(theirs))
    sides = st.integers(-1, keys + 2)
    arguments = {"is_causal": draw(st.booleans())}
    if draw(st.booleans()):
        arguments["window"] = (draw(sides), draw(sides))
    if draw(st.booleans()) and sum(theirs):
        arguments["cu_seqlens"] = tuple(torch.tensor([0, *each]).cumsum(0) for each in (own, theirs))
    if draw(st.integers(0, 3)) == 0:
        kept = torch.tensor(draw(st.lists(st.booleans(), min_size=6, max_size=6))).view(2, 3)
        blocks = BlockSparse.from_array(kept.numpy(), query_block=-(-queries // 2), key_block=-(-keys // 3))
        if kept.shape == (-(-queries // blocks.query_block), -(-keys // blocks.key_block)):
            arguments["block_mask"] = blocks
    return queries, keys, arguments


@laws
@given(restricted())
def test_the_planned_mask_requires_what_a_call_sees_or_more_and_a_note_says_so(case):
    queries, keys, arguments = case
    found, notes = nearest_mask(visible(queries, keys, CallArguments(**arguments)), queries=queries, keys=keys)
    wanted, seen = required(found, queries, keys), seen_by(queries, keys, **arguments)
    assert bool((wanted | ~seen).all())
    assert notes or torch.equal(wanted, seen)


def test_a_call_that_no_mask_of_the_planner_says_is_explained_with_a_note():
    q = torch.zeros(1, 1, 10, 8)
    packed = torch.tensor([0, 4, 10])
    for arguments, line in (
        ({"cu_seqlens": packed, "window": 3}, "packed sequences are not documents"),
        ({"window": (5, -1)}, "the band is not one"),
        ({"cu_seqlens": packed, "block_mask": BlockSparse(layout=((True,),))}, "its blocks alone"),
    ):
        (note,) = explain(q, q, q.clone(), **arguments).notes
        assert line in note
    stacked = torch.zeros(2, 1, 10, 8)
    (note,) = explain(stacked, stacked, stacked.clone(), prefix=2, window=(9, 4)).notes
    assert "behind the prefix" in note
    assert explain(q, q, q, window=100).plan.workload.mask == Causal()


def test_lengths_without_values_are_refused_in_a_line():
    q = torch.zeros(1, 1, 10, 8, device="meta")
    with pytest.raises(InvalidInput, match="cu_seqlens are on meta"):
        explain(q, q, q, cu_seqlens=torch.tensor([0, 10], device="meta"), machine="h200")
