"""Where results lie in memory: as fake kernels promise it, for every type, mask, group, width and order of inputs."""

from itertools import product

import pytest
import torch
from tests.kernels.forms import DTYPES, FORMS, threads

from attenio import attention
from attenio.kernels.call.visibility import UNBOUNDED
from attenio.kernels.torch_operator.operators import attention_backward_operator, attention_operator

NONE = (None,) * 7
EVERYTHING = (-UNBOUNDED, UNBOUNDED, 1, 1)
N, KEYS = 33, 40
MASKS = {
    "dense": (NONE, EVERYTHING),
    "causal": (NONE, (-UNBOUNDED, 0, 1, 1)),
    "window": (NONE, (-5, 5, 1, 1)),
    "bias": ((torch.randn(1, 1, N, 1), *NONE[1:]), EVERYTHING),
    "expanded bias": ((torch.randn(1, 1, 1, KEYS).expand(2, 1, N, KEYS), *NONE[1:]), EVERYTHING),
    "turned bias": ((torch.randn(1, 1, KEYS, N).mT, *NONE[1:]), EVERYTHING),
    "booleans": ((torch.rand(2, 1, N, KEYS).lt(0.8), *NONE[1:]), EVERYTHING),
    "ranges": ((None, torch.zeros(1, N).long(), torch.full((1, N), 7), *NONE[3:]), EVERYTHING),
    "ids": ((*NONE[:3], torch.arange(N)[None] // 9, torch.arange(KEYS)[None] // 9, None, None), EVERYTHING),
    "blocks": ((*NONE[:5], torch.eye(5).bool(), None), (-UNBOUNDED, UNBOUNDED, 8, 8)),
    "dropout": ((*NONE[:6], torch.tensor(7)), EVERYTHING),
}
ORDERS = {
    "contiguous": lambda x: x.contiguous(),
    "tokens before heads": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "turned": lambda x: x.mT.contiguous().mT,
    "every second": lambda x: torch.cat([x, x], -1)[..., ::2],
    "expanded": lambda x: x[:1].expand(x.shape),
    "batch last": lambda x: x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2),
}
SIZES = {(heads, kv, d, width) for heads, kv in ((1, 1), (4, 4), (4, 2)) for d, width in ((16, 16), (16, 24))}


def heads_of(size, dtype, order, scale=1.0):
    heads, kv, d, width = size
    shapes = ((2, heads, N, d), (2, kv, KEYS, d), (2, kv, KEYS, width))
    return [ORDERS[order]((torch.randn(shape) * scale).to(dtype)) for shape in shapes]


def promised_by(operator, arguments):
    """What the fake kernel, which is also that of ``meta``, promises."""
    return operator(*(x.to("meta") if isinstance(x, torch.Tensor) else x for x in arguments))


def steps_of(tensor):
    """Of a dimension of one, any step is given, and none is meant."""
    return [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size != 1]


def assert_as_promised(operator, arguments):
    found = operator(*arguments)
    for promised, mine in zip(promised_by(operator, arguments), found, strict=True):
        assert (mine.shape, mine.dtype) == (promised.shape, promised.dtype)
        assert steps_of(mine) == steps_of(promised)
    return found


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_results_lie_as_fake_kernels_promise(mask, dtype):
    tensors, numbers = MASKS[mask]
    if mask.endswith("bias"):
        tensors = (tensors[0].to(dtype), *NONE[1:])
    dropped = 0.25 if mask == "dropout" else 0.0
    # Every size in two orders and every order in two sizes; the next mask or type has others.
    turn = [*MASKS].index(mask) + DTYPES.index(dtype)
    numbered = list(enumerate(product(sorted(SIZES), ORDERS)))
    for number, (size, order) in (each for each in numbered if (each[0] // len(ORDERS) + each[0] + turn) % 3 == 0):
        q, k, v = heads_of(size, dtype, order, scale=30.0 if number % 5 == 4 else 1.0)
        found = assert_as_promised(attention_operator, (q, k, v, *tensors, 0.25, *numbers, 0, dropped, False))
        gradient = torch.ones_like(found[0]) if number % 2 else found[0].new_ones(()).expand(found[0].shape)
        rest = (*found, gradient, 0.25, *numbers, dropped, False, mask.endswith("bias"))
        assert_as_promised(attention_backward_operator, (q, k, v, *tensors, *rest))


PAIRS = list(
    zip(
        sorted(SIZES),
        ORDERS,
        ("causal", "dense", "bias", "ids", "window", "dense"),
        (*DTYPES, *DTYPES[:2]),
        strict=True,
    )
)


@pytest.mark.parametrize(("size", "order", "mask", "dtype"), PAIRS, ids=str)
def test_opcheck_is_clean_for_every_order_and_size(size, order, mask, dtype):
    tensors, numbers = MASKS[mask]
    q, k, v = (x.requires_grad_() for x in heads_of(size, dtype, order))
    dropped = 0.25 if mask == "dropout" else 0.0
    torch.library.opcheck(
        attention_operator, (q, k, v, *tensors, 0.25, *numbers, 0, dropped, False),
        test_utils=("test_faketensor", "test_aot_dispatch_static"),
    )  # fmt: skip


def options_of(form, dtype):
    shape, options = FORMS[form]
    mask = options.get("attn_mask")
    return shape, options if mask is None or mask.dtype == torch.bool else options | {"attn_mask": mask.to(dtype)}


def assert_compiled_gives_the_same(backend, cases):
    """One program of all cases, each a form, a type and an order, and its gradients."""
    leaves, options = [], []
    for form, dtype, order in cases:
        (heads, kv, queries, keys, d, width), given = options_of(form, dtype)
        shapes = ((2, heads, queries, d), (2, kv, keys, d), (2, kv, keys, width))
        leaves.append(tuple(ORDERS[order](torch.randn(shape).to(dtype)).requires_grad_() for shape in shapes))
        options.append(given)

    def program(inputs):
        return [attention(*heads, **given) for heads, given in zip(inputs, options, strict=True)]

    def results(function):
        torch.manual_seed(0)
        outputs = function(leaves)
        wanted = [x for heads in leaves for x in heads]
        return *outputs, *torch.autograd.grad(outputs, wanted, [each.detach().cos() for each in outputs])

    torch._dynamo.reset()
    compiled = torch.compile(program, backend=backend, fullgraph=True, dynamic=False)
    for mine, plain in zip(results(compiled), results(program), strict=True):
        torch.testing.assert_close(mine, plain, atol=2e-2 if plain.dtype in DTYPES[2:] else 1e-5, rtol=2e-2)


# Whose data need not be looked at, and whose numbers do not come from a generator.
COMPILED = [form for form in FORMS if form not in ("dropout", "tolerance")]


def test_compiled_programs_and_their_gradients_give_the_same_in_every_order(tiles_only):
    orders = [*ORDERS] * len(COMPILED)
    dtypes = [torch.float32, torch.float16, torch.float16, torch.float32, torch.bfloat16] * len(COMPILED)
    assert_compiled_gives_the_same("aot_eager", list(zip(COMPILED, dtypes, orders, strict=False)))


def test_inductor_and_its_gradients_give_the_same():
    forms = ("causal", "groups", "bias", "few rows")
    orders = ["contiguous", *[*ORDERS][-3:]]
    dtypes = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
    with threads(2):
        assert_compiled_gives_the_same("inductor", list(zip(forms, dtypes, orders, strict=True)))
