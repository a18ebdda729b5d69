"""The planner's masks as an argument of attention(): what they mean there, they mean here."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.definition import definition

from attenio import Workload, attention, explain
from attenio.errors import InvalidInput
from attenio.masks import BlockSparse, Causal, Dense, Documents, SharedPrefix, SlidingWindow, Strided
from attenio.reference import attention as reference

Q = torch.randn(2, 2, 20, 8)


@st.composite
def masked(draw):
    """Lengths, a mask, and the arguments that say the same."""
    own = tuple(draw(st.lists(st.integers(1, 20), min_size=1, max_size=4)))
    theirs = tuple(draw(st.integers(1, 30)) for _ in own)
    queries, keys = sum(own), sum(theirs)
    width, causal = draw(st.integers(1, keys)), draw(st.booleans())
    ends = tuple(torch.tensor([0, *np.cumsum(each)]) for each in (own, theirs))
    layout = np.asarray(draw(st.lists(st.booleans(), min_size=30, max_size=30))).reshape(5, 6)
    blocks = BlockSparse.from_array(layout, query_block=-(-queries // 5), key_block=-(-keys // 6))
    aligned = {"window": (-1, 0)} if causal else {}
    cases = [
        (Dense(), {}),
        (Causal(), {"window": (-1, 0)}),
        (SlidingWindow(width=width, causal=causal), {"window": width if causal else (width - 1, width - 1)}),
        (Documents(lengths=own, key_lengths=theirs, causal=causal), {"cu_seqlens": ends, **aligned}),
    ]
    if blocks.array.shape == (-(-queries // blocks.query_block), -(-keys // blocks.key_block)):
        cases.append((blocks, {"block_mask": blocks}))
    if keys > queries or (keys > 1 and not causal):
        length = draw(st.integers(1, keys - queries if causal else keys - 1))
        cases.append((SharedPrefix(length=length, causal=causal), {"prefix": length, **aligned}))
    return queries, keys, *draw(st.sampled_from(cases))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(masked(), st.integers(0, 2**16))
def test_a_mask_means_what_it_means_to_the_planner_and_is_exactly_the_arguments_that_say_the_same(case, seed):
    queries, keys, mask, arguments = case
    drawn = torch.Generator().manual_seed(seed)
    sizes = (2, 4, queries, 4), (2, 2, keys, 4), (2, 2, keys, 6)
    q, k, v = (torch.randn(size, generator=drawn, dtype=torch.float64) for size in sizes)
    if isinstance(mask, SharedPrefix):
        k[:, :, : mask.length], v[:, :, : mask.length] = k[:1, :, : mask.length], v[:1, :, : mask.length]
    mine = attention(q, k, v, enable_gqa=True, mask=mask)
    assert torch.equal(mine, attention(q, k, v, enable_gqa=True, **arguments))
    workload = Workload(queries=queries, keys=keys, d=4, value_dim=6, heads=4, kv_heads=2, batch=2, mask=mask)
    wanted = reference(q.numpy(), k.numpy(), v.numpy(), workload)
    torch.testing.assert_close(mine, torch.from_numpy(wanted), atol=1e-12, rtol=1e-12)


def test_a_layout_is_the_blocks_that_it_lays_out():
    q, layout = torch.randn(1, 2, 100, 8), Strided(block=16, stride=32)
    blocks = BlockSparse.laid_out(layout, queries=100, keys=100)
    assert not blocks.array.all()
    assert torch.equal(attention(q, q, q, mask=layout), attention(q, q, q, block_mask=blocks))


def test_the_causal_mask_is_aligned_at_the_last_key_and_is_causal_at_the_first():
    q, k = torch.randn(1, 1, 3, 8), torch.randn(1, 1, 5, 8)
    i, j = torch.arange(3)[:, None], torch.arange(5)
    torch.testing.assert_close(attention(q, k, k, mask=Causal()), definition(q, k, k, j <= i + 2))
    torch.testing.assert_close(attention(q, k, k, is_causal=True), definition(q, k, k, j <= i))


def test_no_shorter_way_of_calls_without_a_mask_leaves_it_out():
    x = torch.randn(2, 2, 12, 8)
    seen = torch.ones(12, 12).tril().bool()
    for _ in range(3):
        torch.testing.assert_close(attention(x, x, x), definition(x, x, x))
        torch.testing.assert_close(attention(x, x, x, mask=Causal()), definition(x, x, x, seen))
        torch.testing.assert_close(attention(x, x, x, mask=Dense()), definition(x, x, x))


def test_a_window_may_be_wider_than_there_are_keys():
    assert torch.equal(attention(Q, Q, Q, mask=SlidingWindow(width=1000)), attention(Q, Q, Q, mask=Causal()))


def test_masks_that_are_data_hold_together_with_a_mask():
    bias, ids = torch.randn(20, 20), torch.arange(20) // 7
    seen = (ids[:, None] == ids) & torch.ones(20, 20).tril().bool()
    mine = attention(Q, Q, Q, bias, segment_ids=ids, mask=Causal())
    torch.testing.assert_close(mine, definition(Q, Q, Q, seen, bias))


@pytest.mark.parametrize(
    "other",
    [
        {"is_causal": True}, {"window": 3}, {"window": (2, 2)}, {"cu_seqlens": torch.tensor([0, 20])},
        {"segments": torch.tensor([0, 20])}, {"block_mask": torch.ones(1, 1)}, {"prefix": 4},
    ],
    ids=lambda other: next(iter(other)),
)  # fmt: skip
@pytest.mark.parametrize("call", [attention, explain])
def test_what_a_mask_says_nothing_else_may_say(call, other):
    (name,) = other
    with pytest.raises(InvalidInput, match=f"^mask and {name} are both given; leave {name} out: causal says which"):
        call(Q, Q, Q, mask=Causal(), **other)


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        ("causal", "mask is a str; give one of attenio.masks, such as SlidingWindow"),
        (torch.ones(20, 20).bool(), "mask is a Tensor; give it as attn_mask"),
        (Causal, "mask is a type; give one of"),
        (True, "mask is a bool; give one of"),
        (Documents(lengths=(5, 6)), "document lengths add up to 11 but there are 20 queries; make them equal"),
        (BlockSparse(layout=((True,),), query_block=8, key_block=8), "a block-sparse layout has 1 rows of 8"),
        (SharedPrefix(length=20), "prefix 20 leaves no own key of 20; use 40 keys or more, or another mask"),
    ],
    ids=str,
)
@pytest.mark.parametrize("call", [attention, explain])
def test_masks_that_do_not_suit_are_refused_in_a_line(call, mask, says):
    with pytest.raises((InvalidInput, TypeError), match=f"^{says}") as problem:
        call(Q, Q, Q, mask=mask)
    assert "\n" not in str(problem.value)


def test_wrong_tensors_are_refused_for_that_with_a_mask_too():
    with pytest.raises(TypeError, match=r"^query is a list"):
        attention([1.0], Q, Q, mask=Documents(lengths=(20,)))
    with pytest.raises(RuntimeError, match=r"^key has 1 dimension;"):
        attention(Q, Q[0, 0, 0], Q, mask=Documents(lengths=(20,)))


MASKS = [
    Dense(), Causal(), SlidingWindow(width=5), SlidingWindow(width=5, causal=False), Documents(lengths=(8, 12)),
    Documents(lengths=(8, 12), causal=False), SharedPrefix(length=4, causal=False),
    BlockSparse(layout=((True, False), (True, True)), query_block=10, key_block=10),
]  # fmt: skip


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_the_plan_of_a_mask_is_made_for_that_mask(mask):
    assert explain(Q, Q, Q, mask=mask).plan.workload.mask == mask


@pytest.mark.parametrize("mask", MASKS[:-1], ids=str)
def test_masks_compile_and_map(mask):
    wanted = attention(Q, Q, Q, mask=mask)
    compiled = torch.compile(lambda x: attention(x, x, x, mask=mask), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(Q), wanted)
    mapped = torch.vmap(lambda x: attention(x, x, x, mask=mask))(torch.stack([Q, Q.flip(0)]))
    torch.testing.assert_close(mapped[0], wanted)
