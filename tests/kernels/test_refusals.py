"""What attention() refuses: what its model refuses, and what has no meaning, in one line each."""

from contextlib import nullcontext
from math import inf, nan

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attenio import attention, explain
from attenio.errors import InvalidInput
from attenio.masks import BlockSparse

F = torch.nn.functional
Q = torch.randn(1, 4, 5, 8)
WRONG = [
    {"key": Q.half()},
    {"key": torch.randn(1, 4, 5, 7)},
    {"key": Q[:, :2], "value": Q[:, :2]},
    {"key": Q[:, :3], "value": Q[:, :3], "enable_gqa": True},
    {"query": torch.randn(8)},
    {"attn_mask": torch.ones(5, 4, dtype=torch.bool)},
    {"attn_mask": torch.ones(5, 5, dtype=torch.int32)},
    {"dropout_p": 1.5},
    {"query": Q.long(), "key": Q.long(), "value": Q.long()},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_sdpa_refuses_is_refused_with_a_runtime_error(wrong):
    arguments = {"query": Q, "key": Q, "value": Q} | wrong
    with pytest.raises(RuntimeError):
        F.scaled_dot_product_attention(**arguments)
    with pytest.raises(RuntimeError) as problem:
        attention(**arguments)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"window": 2}, {"return_lse": True}], ids=str)
@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        *(({"scale": each}, f"scale is {each}; give a finite number") for each in (nan, inf, -inf, True, False)),
        ({"scale": torch.tensor(nan)}, "scale is tensor"),
        ({"scale": 10**400}, "scale is int 1000"),
        ({"dropout_p": True}, "dropout_p is True; give a probability"),
    ],
)
def test_a_scale_that_is_not_finite_and_switches_for_numbers_are_refused_though_sdpa_takes_them(wrong, line, options):
    for call in (attention, explain):
        with pytest.raises((ValueError, TypeError), match=line) as problem:
            call(Q, Q, Q, **wrong, **options)
        assert "\n" not in str(problem.value)


def test_no_dropout_may_be_said_as_false_as_in_sdpa():
    torch.testing.assert_close(attention(Q, Q, Q, dropout_p=False), F.scaled_dot_product_attention(Q, Q, Q))


@pytest.mark.parametrize("prefix", [-1, 6, 1.5, "2", int, torch.ones(2, 2), torch.ones(()), 10**30], ids=str)
def test_a_prefix_that_is_no_number_of_keys_is_refused_in_a_line(prefix):
    with pytest.raises(
        InvalidInput, match=r"prefix is .* of 5 keys; give the number of keys that are shared"
    ) as problem:
        attention(Q, Q, Q, prefix=prefix)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("mask", [torch.tensor(1.0), torch.randn(5), torch.tensor([True, False, True, True, False])])
def test_masks_of_fewer_dimensions_than_pytorch_takes_are_broadcast(mask):
    wide = mask.expand(5, 5)
    close = {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(attention(Q, Q, Q, mask), F.scaled_dot_product_attention(Q, Q, Q, wide), **close)


def test_a_window_beyond_every_length_is_none():
    for window in (10**30, (10**30, 0), (10**12, 0)):
        torch.testing.assert_close(attention(Q, Q, Q, window=window), attention(Q, Q, Q, is_causal=True))


def named(value):
    """Its type, with the article."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


@pytest.mark.parametrize("word", ["no", "2.5", None, 1, 1j, torch.ones(2)], ids=lambda word: type(word).__name__)
@pytest.mark.parametrize("name", ["dropout_p", "is_causal", "scale", "enable_gqa"])
def test_options_of_a_wrong_type_are_refused_where_sdpa_refuses_them(name, word):
    try:
        F.scaled_dot_product_attention(Q, Q, Q, **{name: word})
    except TypeError:
        wants = "True or False" if name in ("is_causal", "enable_gqa") else "a number"
        said = f"^{name} is {named(word)}; give {wants}$"
        if name == "is_causal" and isinstance(word, str):  # some words have a meaning here
            said = f"^is_causal is '{word}'; give True or False, 'top-left' .as True. or 'bottom-right'$"
        with pytest.raises(TypeError, match=said):
            attention(Q, Q, Q, **{name: word})
    else:
        attention(Q, Q, Q, **{name: word})


@pytest.mark.parametrize("name", ["dropout_p", "scale"])
def test_a_number_that_requires_a_gradient_is_refused_as_by_sdpa(name):
    learned = torch.nn.Parameter(torch.tensor(0.5))
    with pytest.raises(TypeError, match=name):
        F.scaled_dot_product_attention(Q, Q, Q, **{name: learned})
    with pytest.raises(TypeError, match=f"^{name} requires a gradient, and attention has none for it"):
        attention(Q, Q, Q, **{name: learned})
    with pytest.raises(TypeError, match=f"^{name} requires a gradient"):
        torch.func.grad(lambda number: attention(Q, Q, Q, **{name: number}).sum())(torch.tensor(0.5))
    attention(Q, Q, Q, **{name: learned.detach()})


@pytest.mark.parametrize("word", ["no", None, 1])
def test_deterministic_is_true_or_false(word):
    with pytest.raises(TypeError, match=f"^deterministic is {named(word)}; give True or False$"):
        attention(Q, Q, Q, deterministic=word)


def test_keys_without_values_are_refused():
    with pytest.raises(RuntimeError, match="5 keys and 6 values"):  # PyTorch reads past the end here
        attention(Q, Q, torch.randn(1, 4, 6, 8))


@pytest.mark.parametrize(
    "wrong",
    [
        {"tolerance": -1e-3},
        {"window": 0},
        {"window": (-2, 0)},
        {"window": torch.nan},
        {"window": (torch.nan, 0)},
        {"window": (1, 2, 3)},
        {"window": True},
        {"window": (True, 0)},
        {"prefix": 6},
        {"prefix": 2.5},
        {"prefix": True},
        {"softcap": True},
        {"tolerance": True},
        {"prefix": "all"},
        {"segments": torch.zeros(2, 4)},
        {"segments": [0, 2, 5]},
        {"segments": 5},
        {"segments": (torch.tensor([0, 5]), torch.tensor([0, 2, 5]))},
        {"segment_ids": torch.tensor([0, 2, 5])},
        {"segment_ids": torch.zeros(2, 4).long()},
        {"segment_ids": [0, 0, 1, 1, 2]},
        {"cu_seqlens": torch.tensor([[0, 5]])},
        {"cu_seqlens": torch.tensor([5])},
        {"cu_seqlens": torch.tensor([False, True])},
        {"cu_seqlens": (torch.tensor([0, 5]),) * 3},
        {"cu_seqlens": torch.tensor([0, 5]), "segments": torch.tensor([0, 5])},
        {"segment_ids": torch.arange(5), "segments": torch.tensor([0, 5])},
        {"block_mask": BlockSparse.from_array(torch.ones(3, 3).numpy())},
    ],
)
def test_what_has_no_meaning_is_refused_in_one_line(wrong):
    with pytest.raises(InvalidInput) as problem:
        attention(Q, Q, Q, **wrong)
    assert "\n" not in str(problem.value)


def test_a_switch_is_no_window_after_a_window_of_one_key():
    attention(Q, Q, Q, window=1)
    with pytest.raises(InvalidInput, match="window is True; give a whole number of keys"):
        attention(Q, Q, Q, window=True)


def test_what_is_no_dense_tensor_is_refused_by_name():
    q = torch.randn(1, 2, 12, 8)
    for wrong in (q.tolist(), None):
        with pytest.raises(TypeError, match=f"key is {named(wrong)}"):
            attention(q, wrong, q)
    nested = torch.nested.nested_tensor([q[0], q[0, :, :5]])
    with pytest.raises(TypeError, match="cu_seqlens="):
        attention(nested, nested, nested)
    with pytest.raises(TypeError, match="value is a sparse tensor"):
        attention(q, q, q.to_sparse())
    for wrong in (q.tolist(), True):
        with pytest.raises(TypeError, match=f"attn_mask is {named(wrong)}"):
            attention(q, q, q, wrong)


def test_a_mask_on_another_device_is_refused():
    """Computed, it would be of whatever memory holds there."""
    with pytest.raises(RuntimeError, match="attn_mask is on meta and query on cpu"):
        attention(Q, Q, Q, torch.ones(5, 5, device="meta"))


@pytest.mark.parametrize("name", ["segments", "cu_seqlens", "segment_ids"])
def test_packed_sequences_are_told_in_integers(name):
    with pytest.raises(InvalidInput, match=rf"{name} is torch\.float32"):
        attention(Q, Q, Q, **{name: torch.tensor([0.0, 2.5, 5.0])})


@pytest.mark.parametrize("lengths", [[[0, 5]], [], [5], 5])
def test_lengths_of_another_shape_are_told_that_there_is_one_dimension(lengths):
    with pytest.raises(InvalidInput, match=r"^cu_seqlens has shape .*; give one dimension: 0 and the end of each"):
        attention(Q, Q, Q, cu_seqlens=torch.tensor(lengths, dtype=torch.int32))


@pytest.mark.parametrize("name", ["segments", "cu_seqlens"])
@pytest.mark.parametrize("state", [nullcontext, torch.inference_mode, "counted", "autocast", "vmap", "grad"])
@pytest.mark.parametrize(
    ("lengths", "fault"),
    [
        ([1, 2, 5], "starts at 1"),
        ([0, 4, 2, 5], "falls from 4 to 2"),
        ([0, 2, 6], "ends at 6"),
        ([0, 2, 3], "ends at 3"),
        ([-1, 2, 5], "starts at -1"),
    ],
)
def test_lengths_that_do_not_add_up_to_the_tokens_are_refused(lengths, fault, state, name):
    """Of queries or of keys, and whoever watches the call."""
    wrong, right = torch.tensor(lengths), torch.tensor([0, *[5] * (len(lengths) - 1)])
    for which, pair in (("queries", (wrong, right)), ("keys", (right, wrong))):

        def call(query, pair=pair):
            return attention(query, Q, Q, **{name: pair}).sum()

        with pytest.raises(InvalidInput, match=f"^{name} of {which} {fault}; give 0 and the end of each sequence, 5"):
            match state:
                case "vmap":
                    torch.vmap(call)(torch.stack([Q, Q]))
                case "grad":
                    torch.func.grad(call)(Q)
                case "autocast":
                    torch.autocast("cpu")(call)(Q)
                case _:
                    with FlopCounterMode(display=False) if state == "counted" else state():
                        call(Q)


@pytest.mark.parametrize("lengths", [[0, 2], [0, 1, 3], [0, 3, 3], [0, 0, 3, 4], [0, 1, 2, 5, 5]], ids=str)
def test_segments_that_could_be_lengths_or_ids_are_refused_and_each_has_an_argument_of_its_own(lengths):
    given, tokens = torch.tensor(lengths), len(lengths)
    q = torch.randn(1, 2, tokens, 8)
    with pytest.raises(InvalidInput, match="give cu_seqlens= or segment_ids= instead"):
        attention(q, q, q, segments=given)
    by_ids = given[:, None] == given
    torch.testing.assert_close(attention(q, q, q, segment_ids=given), F.scaled_dot_product_attention(q, q, q, by_ids))
    where = torch.bucketize(torch.arange(tokens), given[1:], right=True)
    by_lengths = where[:, None] == where
    assert not torch.equal(by_ids, by_lengths)
    torch.testing.assert_close(
        attention(q, q, q, cu_seqlens=given), F.scaled_dot_product_attention(q, q, q, by_lengths)
    )


def test_segments_that_can_mean_one_thing_mean_it():
    lengths, ids = torch.tensor([0, 2, 5]), torch.tensor([0, 0, 1, 1, 1])
    wanted = attention(Q, Q, Q, cu_seqlens=lengths)
    for given in (lengths, ids, ids + 7, ids[None], (lengths, lengths.int()), (ids, ids[None])):
        assert torch.equal(attention(Q, Q, Q, segments=given), wanted)
    two, three = torch.tensor([0, 1, 5]), torch.tensor([0, 1, 3])  # no id for each of five queries
    mine = attention(Q, Q[:, :, :3], Q[:, :, :3], segments=(two, three))
    assert torch.equal(mine, attention(Q, Q[:, :, :3], Q[:, :, :3], cu_seqlens=(two, three)))


def test_lengths_of_another_device_than_the_cpu_are_refused():
    with pytest.raises(InvalidInput, match="cu_seqlens is on meta and query on cpu"):
        attention(Q, Q, Q, cu_seqlens=torch.tensor([0, 5], device="meta"))
    with pytest.raises(InvalidInput, match="on meta, where they have no values"):
        explain(*[Q.to("meta")] * 3, cu_seqlens=torch.tensor([0, 5], device="meta"), machine="h200")
