"""Laws of calls like the last one: to the bit what PyTorch gives, and nothing that differs is taken for one."""

import pytest
import torch
from tests.kernels.cpu.test_beside import DOOR, anew, drawn  # noqa: F401 - a fixture of all tests here
from tests.kernels.definition import definition
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from attenio import attention
from attenio.errors import AttenioError
from attenio.kernels.cpu import library, repeated

MASK = torch.randn(33, 33, generator=torch.Generator().manual_seed(0))
KINDS = {
    "dense": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.3},
    "scaled and causal": {"is_causal": True, "scale": 0.3},
    "boolean": {"attn_mask": MASK > 0.3},
    "float": {"attn_mask": MASK},
    "groups": {"enable_gqa": True},
    "groups with a mask": {"enable_gqa": True, "attn_mask": MASK > 0.3, "scale": 0.3},
}
needs_fused = pytest.mark.skipif(repeated.fused_attention is None, reason="this PyTorch has no such kernel")


@pytest.fixture
def guards(monkeypatch):
    """Guards that were made."""
    made, make = [], repeated._Guards
    monkeypatch.setattr(repeated, "_Guards", lambda *a, **o: (made.append(1), make(*a, **o))[1])
    return made


@pytest.fixture
def fused(monkeypatch):
    """How often the fused kernel was called without PyTorch's choice."""
    calls, theirs = [], repeated.fused_attention
    for module in (repeated, DOOR):
        monkeypatch.setattr(module, "fused_attention", lambda *a, **o: (calls.append(1), theirs(*a, **o))[1])
    return calls


def options_of(kind, dtype):
    given = dict(KINDS[kind])
    if kind == "float":
        given["attn_mask"] = given["attn_mask"].to(dtype)
    return given


@needs_fused
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("wants", [False, True], ids=["alone", "with gradients"])
@pytest.mark.parametrize("kind", KINDS)
def test_repeated_calls_are_to_the_bit_what_pytorchs_function_gives(kind, wants, dtype, guards, fused):
    if dtype == torch.bfloat16 and not library.is_fast(dtype, backward=wants):
        pytest.skip("tiles are first in 16 bits here")
    options = options_of(kind, dtype)
    q, k, v = (x.requires_grad_(wants) for x in drawn(kv_heads=2 if "groups" in kind else 4, dtype=dtype))
    g = torch.randn_like(q)
    for turn in range(5):
        mine, theirs = attention(q, k, v, **options), scaled_dot_product_attention(q, k, v, **options)
        assert torch.equal(mine, theirs)
        if wants and turn:
            both = [torch.autograd.grad(output, (q, k, v), g) for output in (mine, theirs)]
            assert all(torch.equal(*pair) for pair in zip(*both, strict=True))
    converts = options.get("attn_mask", MASK).dtype == torch.bool
    assert len(guards) == 1 and bool(fused) == (not converts)


CHANGES = {
    "another length": lambda q, k, v: (q[:, :, :5], k, v),
    "other keys": lambda q, k, v: (q, k[:, :, :20], v[:, :, :20]),
    "other heads": lambda q, k, v: (q[:, :2], k[:, :2], v[:, :2]),
    "rows apart": lambda q, k, v: (q.mT.contiguous().mT, k.mT.contiguous().mT, v.mT.contiguous().mT),
    "heads inside": lambda q, k, v: tuple(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)),
    "one tensor": lambda q, k, v: (q, q, q),
    "a parameter": lambda q, k, v: (torch.nn.Parameter(q.detach()), k, v),
    "another type": lambda q, k, v: (q.double(), k.double(), v.double()),
    "negated": lambda q, k, v: (torch._neg_view(q), k, v),
    "a batch": lambda q, k, v: tuple(x.expand(2, *x.shape[1:]) for x in (q, k, v)),
    "no batch": lambda q, k, v: (q[0], k[0], v[0]),
}


@pytest.mark.parametrize("wants", [False, True], ids=["alone", "with gradients"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_differs_from_the_last_call_is_computed_as_well(change, wants):
    tensors = [x.requires_grad_(wants) for x in drawn()]
    for _ in range(3):
        attention(*tensors)
    other = CHANGES[change](*tensors)
    for _ in range(3):
        wide = [x.double() for x in other]
        right = definition(*(x if x.dim() == 4 else x[None] for x in wide)).to(other[0].dtype)
        torch.testing.assert_close(attention(*other), right.reshape(other[0].shape), atol=1e-5, rtol=1e-5)


def test_options_that_differ_from_those_of_the_last_call_are_heard():
    q, k, v = drawn()
    every = [{}, {"is_causal": True}, {"scale": 0.3}, {"attn_mask": MASK}, {"attn_mask": MASK, "is_causal": True}]
    every += [{"window": 5}, {"attn_mask": MASK > 0.0}, {"attn_mask": MASK, "scale": 0.3}, {"softcap": 2.0}]
    alone = [attention(q, k, v, **options) for options in every]
    for first in every:
        for options, expected in zip(every, alone, strict=True):
            for _ in range(3):
                attention(q, k, v, **first)
            torch.testing.assert_close(attention(q, k, v, **options), expected)


@pytest.mark.parametrize("gradients", [False, True])
def test_values_of_another_length_are_refused_after_repeated_calls(gradients):
    q, k, v = (x.requires_grad_(gradients) for x in drawn())
    for _ in range(3):
        attention(q, k, v)
    for wrong in ((q, k, v[:, :, :-1]), (q, k.double(), v), (q, k, v.to("meta")), (q, k[:, :2], v), (q, k, None)):
        with pytest.raises(AttenioError):
            attention(*wrong)


def test_transforms_modes_and_compilers_are_not_passed_by_after_repeated_calls():
    q, k, v = drawn()
    for _ in range(3):
        expected = attention(q, k, v)
    torch.testing.assert_close(torch.vmap(lambda x: attention(x, k, v))(torch.stack((q, q)))[1], expected)
    wide = [x.double().requires_grad_() for x in (q, k, v)]
    right = torch.autograd.grad(definition(*wide).sin().sum(), wide)
    found = torch.func.grad(lambda *x: attention(*x).sin().sum(), argnums=(0, 1, 2))(q, k, v)
    for mine, theirs in zip(found, right, strict=True):
        torch.testing.assert_close(mine.double(), theirs, atol=2e-5, rtol=2e-5)
    with pytest.raises(AttenioError, match="no derivative in forward mode"):
        torch.func.jvp(lambda x: attention(x, k, v), (q,), (q,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(4):
            assert torch.equal(attention(q, k, v), scaled_dot_product_attention(q, k, v))
    compiled = torch.compile(lambda *x: attention(*x), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(q, k, v), expected)
    with torch.inference_mode():
        for _ in range(4):
            assert torch.equal(attention(q, k, v), expected)


def test_a_leaf_that_wants_gradients_has_them_after_calls_without():
    q, k, v = (x.requires_grad_() for x in drawn())
    mask = torch.zeros(33, 33)
    mask[::2] = -1e9  # gradients of PyTorch's are too large beside it
    for _ in range(4):
        with torch.no_grad():
            attention(q, k, v, mask)
    (found,) = torch.autograd.grad(attention(q, k, v, mask).sum(), v)
    assert found.abs().max() <= 33.0 + 1e-3  # each row gives a weight of 1 in all


@needs_fused
@pytest.mark.parametrize("masks", [None, "boolean", "float"])
def test_gradients_of_an_only_key_are_exact_after_repeated_calls_with_and_without_them(masks, fused):
    q, k, v = (100 * x for x in drawn(queries=3, keys=1))
    mask = {None: None, "boolean": torch.ones(3, 1) > 0, "float": torch.zeros(3, 1)}[masks]
    tensors = [x.requires_grad_() for x in (q, k, v)]
    for _ in range(4):
        with torch.no_grad():
            attention(*tensors, mask)
    for turn in range(4):
        fused.clear()
        output = attention(*tensors, mask)
        of_query, of_key, of_value = torch.autograd.grad(output, tensors, torch.ones_like(output))
        assert not of_query.any() and not of_key.any() and torch.equal(of_value, torch.full_like(v, 3.0))
        assert len(fused) == (turn > 2 and masks != "boolean")


def test_groups_are_refused_where_they_are_not_asked_for_after_repeated_calls_that_did():
    q, k, v = drawn(kv_heads=2)
    for _ in range(3):
        attention(q, k, v, enable_gqa=True)
    for wrong in (False, 1, None, "yes"):
        with pytest.raises(AttenioError):
            attention(q, k, v, enable_gqa=wrong)


@needs_fused
def test_a_scale_that_is_computed_anew_at_every_call_is_the_same_one(guards, fused):
    q, k, v = drawn()
    for scale in ("0.3", "0.3", "0.3", "0.3"):
        attention(q, k, v, scale=float(scale))
    assert len(guards) == 1 and len(fused) == 1
    torch.testing.assert_close(attention(q, k, v, scale=float("0.4")), definition(q, k, v, scale=0.4))
    with pytest.raises(AttenioError):
        attention(q, k, v, scale="0.3")


@needs_fused
def test_forms_in_turns_and_growing_caches_make_no_or_few_guards(guards):
    q, k, v = drawn(queries=1, keys=256)
    with torch.no_grad():
        for n in range(100, 130):
            attention(q, k[:, :, :n], v[:, :, :n])
            attention(q, k, v)
    assert not guards
    with torch.no_grad():
        for n in (100, 101) * 20:
            for _ in range(2):
                attention(q, k[:, :, :n], v[:, :, :n])
    assert len(guards) == 2
    with torch.no_grad():
        for _ in range(30):  # as many bytes of keys
            attention(q, k, v)
            attention(torch.cat((q, q), 2), k, v)
    assert 2 < len(guards) <= 2 + repeated._MOST_GUARDS


@needs_fused
def test_pytorchs_switches_of_its_kernels_are_followed(fused):
    q, k, v = (torch.randn(1, 2, 16, 8, requires_grad=True) for _ in range(3))
    for _ in range(4):
        assert "Flash" in type(attention(q, k, v).grad_fn).__name__
    assert len(fused) == 1
    with sdpa_kernel(SDPBackend.MATH):  # the only one that has second derivatives
        (first,) = torch.autograd.grad(attention(q, k, v).square().sum(), q, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), q)
    assert second.norm() > 0
    assert "Flash" in type(attention(q, k, v).grad_fn).__name__ and len(fused) == 2
