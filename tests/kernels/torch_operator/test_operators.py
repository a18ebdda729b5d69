"""The registered operator under opcheck, gradcheck, torch.compile, vmap, and finite differences."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from attenio import attention
from attenio.kernels.call.visibility import UNBOUNDED
from attenio.kernels.torch_operator.operators import attention_backward_operator, attention_operator

NONE = (None,) * 7
CASES = {
    "dense": (NONE, (-UNBOUNDED, UNBOUNDED, 1, 1)),
    "causal": (NONE, (-UNBOUNDED, 0, 1, 1)),
    "ids": ((None, None, None, torch.arange(10)[None] // 4, torch.arange(12)[None] // 4, None, None), (-5, 5, 1, 1)),
    "ranges": ((None, torch.zeros(1, 10).long(), torch.full((1, 10), 7), *NONE[3:]), (-UNBOUNDED, UNBOUNDED, 1, 1)),
    "bias": ((torch.randn(1, 1, 10, 12), *NONE[1:]), (-UNBOUNDED, UNBOUNDED, 1, 1)),
    "sinks": (NONE, (-UNBOUNDED, UNBOUNDED, 1, 1)),
    "blocks": ((*NONE[:5], torch.eye(5, 6).bool(), None), (-UNBOUNDED, UNBOUNDED, 2, 2)),
}
# Sinks and a cap on scores, by case.
MORE = {"sinks": (torch.randn(4, requires_grad=True), 2.0), "ids": (None, 1.5)}


def inputs(dtype=torch.float32):
    return tuple(torch.randn(s, dtype=dtype, requires_grad=True) for s in ((2, 4, 10, 8), (2, 2, 12, 8), (2, 2, 12, 4)))


# Traced with sizes that are symbols, which takes longest: without tensors, with ranges, with more gradients.
SYMBOLIC = ("causal", "ranges", "sinks")
QUICK = ("test_schema", "test_autograd_registration", "test_faketensor")


@pytest.mark.parametrize("case", CASES)
def test_opcheck_is_clean(case):
    checks = (*QUICK, "test_aot_dispatch_dynamic" if case in SYMBOLIC else "test_aot_dispatch_static")
    tensors, numbers = CASES[case]
    sinks, softcap = MORE.get(case, (None, 0.0))
    arguments = (*inputs(), *tensors, 0.3, *numbers, 0, 0.0, case == "causal", sinks, softcap)
    torch.library.opcheck(attention_operator, arguments, test_utils=checks)
    q, k, v = (x.detach() for x in arguments[:3])
    sinks = None if sinks is None else sinks.detach()
    output = attention_operator(q, k, v, *arguments[3:-2], sinks, softcap)
    gradient = torch.randn_like(output[0])
    backward = (q, k, v, *tensors, *output, gradient, 0.3, *numbers, 0.0, case == "causal", case == "bias")
    torch.library.opcheck(attention_backward_operator, (*backward, sinks, softcap), test_utils=checks)


@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"window": 3}, {"window": (2, 1)}, {"segment_ids": torch.arange(6) // 4}],
    ids=str,
)
def test_gradients_are_those_of_finite_differences(options):
    q, k, v = (torch.randn(1, 2, 6, 3, dtype=torch.float64, requires_grad=True) for _ in range(3))
    assert torch.autograd.gradcheck(lambda *a: attention(*a, **options), (q, k, v))


def test_compiled_it_gives_the_same():
    compiled = torch.compile(
        lambda q, k, v: attention(q, k, v, is_causal=True).sin(), backend="aot_eager", fullgraph=True, dynamic=True
    )
    for n in (5, 9, 40):
        q, k, v = (torch.randn(1, 2, n, 8, requires_grad=True) for _ in range(3))
        mine, plain = compiled(q, k, v), attention(q, k, v, is_causal=True).sin()
        torch.testing.assert_close(mine, plain)
        for x, y in zip(*(torch.autograd.grad(out.sum(), (q, k, v)) for out in (mine, plain)), strict=True):
            torch.testing.assert_close(x, y)


class Attention(torch.nn.Module):
    def forward(self, query, key, value):
        return attention(query, key, value, is_causal=True)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_traced_with_any_number_of_heads_and_tokens_it_gives_the_same():
    module, dynamic = Attention(), dict.fromkeys(range(3), torch.export.Dim.DYNAMIC)
    given, other = (tuple(torch.randn(*size, 8) for _ in range(3)) for size in ((2, 4, 10), (3, 2, 14)))
    traced = [
        torch.jit.trace(module, given, check_trace=False),
        make_fx(module, tracing_mode="symbolic")(*given),
        torch.export.export(module, given, dynamic_shapes=(dynamic,) * 3, strict=False).module(),
        torch.export.export(module, given, dynamic_shapes=(dynamic,) * 3, strict=True).module(),
    ]
    for function in traced:
        torch.testing.assert_close(function(*other), module(*other))


class PackedAttention(torch.nn.Module):
    def forward(self, tokens, cu_seqlens):
        return attention(tokens, tokens, tokens, is_causal=True, cu_seqlens=cu_seqlens)


@pytest.mark.parametrize("strict", [False, True])
def test_exported_for_any_number_of_sequences_it_takes_one_alone_and_empty_ones(strict):
    tokens, lengths = torch.export.Dim("tokens", min=2, max=100), torch.export.Dim("lengths", min=2, max=100)
    given = torch.randn(1, 2, 7, 8), torch.tensor([0, 3, 7], dtype=torch.int32)
    program = torch.export.export(PackedAttention(), given, dynamic_shapes=({2: tokens}, {0: lengths}), strict=strict)
    for ends in ([0, 9], [0, 0, 6, 6, 13]):
        x, cu_seqlens = torch.randn(1, 2, ends[-1], 8), torch.tensor(ends, dtype=torch.int32)
        expected = attention(x, x, x, is_causal=True, cu_seqlens=cu_seqlens)
        torch.testing.assert_close(program.module()(x, cu_seqlens), expected)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"cu_seqlens": torch.tensor([0, 4, 10])},
        {"prefix": 5},
        {"attn_mask": torch.ones(10, 10).bool()},
    ],
    ids=str,
)
@pytest.mark.parametrize("dims", [(0, 0, 0), (1, None, 0), (None, 2, 2)])
def test_mapped_it_gives_what_a_loop_gives(options, dims):
    q, k, v = (torch.randn(2, 3, 10, 8) for _ in range(3))
    stacks = [
        x if dim is None else torch.stack([x, x.flip(1), x + 1], dim) for x, dim in zip((q, k, v), dims, strict=True)
    ]
    mapped = torch.vmap(lambda *a: attention(*a, **options), in_dims=dims)(*stacks)
    for i in range(3):
        one = (x if dim is None else x.select(dim, i) for x, dim in zip(stacks, dims, strict=True))
        torch.testing.assert_close(mapped[i], attention(*one, **options))


def test_a_mapped_mask_belongs_to_its_element():
    q = torch.randn(2, 3, 10, 8)
    masks = torch.rand(4, 10, 10) < 0.7
    mapped = torch.vmap(lambda m: attention(q, q, q, m))(masks)
    for i in range(4):
        torch.testing.assert_close(mapped[i], attention(q, q, q, masks[i]))


@pytest.mark.parametrize("restricted", ["by nothing", "is_causal", "attn_mask"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_transforms_of_functions_differentiate_it(which, restricted):
    """torch.func: gradients, each element's own, and those of a mapped call."""
    q, k, v = (torch.randn(3, 2, 10, 8, dtype=torch.float64) for _ in range(3))
    given = {"is_causal": True, "attn_mask": torch.randn(10, 10, dtype=torch.float64)}
    options = {name: value for name, value in given.items() if name == restricted}

    def loss(x, function, others, options):
        inputs = [*others[:which], x, *others[which:]]
        return function(*inputs, **options).sin().sum()

    others = [x for number, x in enumerate((q, k, v)) if number != which]
    x = (q, k, v)[which]
    wanted = torch.autograd.grad(loss(leaf := x.clone().requires_grad_(), attention, others, options), leaf)[0]
    found = torch.func.grad(loss)(x, attention, others, options)
    torch.testing.assert_close(found, wanted)
    alone = torch.vmap(lambda one, two, three: torch.func.grad(loss)(one, attention, [two, three], options))
    torch.testing.assert_close(alone(x, *others), wanted)
    mapped = torch.func.grad(lambda y: loss(y, torch.vmap(lambda *heads: attention(*heads, **options)), others, {}))
    torch.testing.assert_close(mapped(x), wanted)


def test_derivatives_that_are_not_computed_are_refused_and_never_zero():
    q, k, v = (torch.randn(1, 2, 6, 4, dtype=torch.float64) for _ in range(3))
    with pytest.raises(NotImplementedError, match="forward mode"):
        torch.func.jvp(lambda x: attention(x, k, v), (q,), (torch.ones_like(q),))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="forward mode"):
        attention(q, torch.autograd.forward_ad.make_dual(k, torch.ones_like(k)), v)
    with pytest.raises(NotImplementedError, match="second derivative"):
        torch.func.grad(lambda x: torch.func.grad(lambda y: attention(y, k, v).sum())(x).sum())(q)
    scale = torch.tensor(2.0, dtype=torch.float64)
    _, tangent = torch.func.jvp(lambda x: x * attention(q, k, v), (scale,), (torch.ones_like(scale),))
    torch.testing.assert_close(tangent, attention(q, k, v))


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize(
    "options",
    [
        {}, {"is_causal": True}, {"window": 7}, {"dropout_p": 0.5}, {"tolerance": 1e-2}, {"prefix": 3},
        {"cu_seqlens": torch.tensor([0, 100, 300])}, {"block_mask": torch.eye(5, dtype=torch.bool)},
        {"attn_mask": torch.ones(300, 300).tril()},
    ],
    ids=lambda options: next(iter(options), "plain"),
)  # fmt: skip
def test_defaults_for_new_tensors_change_nothing(options, heads):
    q, k, v, gradient = (torch.randn(2, heads, 300, 32).div_(4) for _ in range(4))
    leaves = tuple(x.requires_grad_() for x in (q[:1], k[:1], v[:1]))

    def results():
        torch.manual_seed(0)
        output = attention(*leaves, **options)
        return output, *torch.autograd.grad(output, leaves, gradient[:1])

    plain, before = results(), torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.bfloat16)
        typed = results()
    finally:
        torch.set_default_dtype(before)
    with torch.device("meta"):
        placed = results()
    for mine, *others in zip(plain, typed, placed, strict=True):
        for other in others:
            torch.testing.assert_close(other, mine)
