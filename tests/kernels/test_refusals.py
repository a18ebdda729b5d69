"""What attention() refuses: what its model refuses, and what has no meaning, in one line each."""

import pytest
import torch

from attenio import attention
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


@pytest.mark.parametrize("word", ["no", "2.5", None, 1, 1j, torch.ones(2)], ids=lambda word: type(word).__name__)
@pytest.mark.parametrize("name", ["dropout_p", "is_causal", "scale", "enable_gqa"])
def test_options_of_a_wrong_type_are_refused_where_sdpa_refuses_them(name, word):
    try:
        F.scaled_dot_product_attention(Q, Q, Q, **{name: word})
    except TypeError:
        wants = "True or False" if name in ("is_causal", "enable_gqa") else "a number"
        with pytest.raises(TypeError, match=f"^{name} is a {type(word).__name__}; give {wants}$"):
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
    with pytest.raises(TypeError, match=f"^deterministic is a {type(word).__name__}; give True or False$"):
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
        {"prefix": 6},
        {"prefix": 2.5},
        {"prefix": "all"},
        {"segments": torch.zeros(2, 4)},
        {"segments": [0, 2, 5]},
        {"segments": 5},
        {"segments": (torch.tensor([0, 5]), torch.tensor([0, 2, 5]))},
        {"block_mask": BlockSparse.from_array(torch.ones(3, 3).numpy())},
    ],
)
def test_what_has_no_meaning_is_refused_in_one_line(wrong):
    with pytest.raises(InvalidInput) as problem:
        attention(Q, Q, Q, **wrong)
    assert "\n" not in str(problem.value)


def test_what_is_no_dense_tensor_is_refused_by_name():
    q = torch.randn(1, 2, 12, 8)
    for wrong in (q.tolist(), None):
        with pytest.raises(TypeError, match=f"key is a {type(wrong).__name__}"):
            attention(q, wrong, q)
    nested = torch.nested.nested_tensor([q[0], q[0, :, :5]])
    with pytest.raises(TypeError, match="segments="):
        attention(nested, nested, nested)
    with pytest.raises(TypeError, match="value is a sparse tensor"):
        attention(q, q, q.to_sparse())
    for wrong in (q.tolist(), True):
        with pytest.raises(TypeError, match=f"attn_mask is a {type(wrong).__name__}"):
            attention(q, q, q, wrong)


def test_a_mask_on_another_device_is_refused():
    """Computed, it would be of whatever memory holds there."""
    with pytest.raises(RuntimeError, match="attn_mask is on meta and query on cpu"):
        attention(Q, Q, Q, torch.ones(5, 5, device="meta"))


def test_segments_are_integers():
    with pytest.raises(InvalidInput, match=r"segments are torch\.float32"):
        attention(Q, Q, Q, segments=torch.tensor([0.0, 2.5, 5.0]))
