"""PyTorch's own samples of scaled_dot_product_attention (its op_db), through attention() and its transforms."""

from functools import cache

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from attenio import attention

pytest.importorskip("expecttest", reason="torch.testing._internal needs it")

F = torch.nn.functional
DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64]
ORDERS = {
    "as given": lambda x: x,
    "turned": lambda x: x.mT.contiguous().mT,
    "every second": lambda x: torch.cat([x, x], -1)[..., ::2],
    "expanded": lambda x: x[:1].expand(x.shape),
    "first dimensions last": lambda x: x.movedim(0, -1).contiguous().movedim(-1, 0),
}


@cache
def operation():
    """PyTorch's list of its operations takes seconds to import: only the process that runs these tests does."""
    from torch.testing._internal.common_methods_invocations import op_db

    (found,) = [each for each in op_db if each.name == "nn.functional.scaled_dot_product_attention"]
    return found


def samples_of(dtype, *, dropped=False):
    """Those that drop scores, or those that do not: as (query, key, value), options."""
    for sample in operation().sample_inputs("cpu", dtype, requires_grad=True):
        if (sample.kwargs.get("dropout_p", 0.0) > 0.0) == dropped:
            yield (sample.input, *sample.args), sample.kwargs


def results(function, heads, options):
    """Output and gradients of all that has one."""
    options = dict(options)
    given = [x for x in (*heads, options.get("attn_mask")) if x is not None and x.requires_grad]
    output = function(*heads, **options)
    return output, *torch.autograd.grad(output, given, torch.ones_like(output))


def assert_right(found, heads, options):
    """Errors up to twice those of PyTorch's own in the same precision, and a rounding of what is added up.

    Gradients of queries, keys and masks are differences of dO.V and dO.O, and that is what is rounded there. A rounded
    score, in the precision that is computed in, moves its weight by so many times its size.
    """
    wide = {
        name: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for name, x in options.items()
    }
    exact = results(F.scaled_dot_product_attention, [x.double() for x in heads], wide)
    plain = results(F.scaled_dot_product_attention, heads, options)
    query, key, value = (x.detach().double() for x in heads)
    subtracted = float(value.norm(dim=-1).max()) * max(1.0, float(key.abs().max()), float(query.abs().max()))
    sizes = (float(value.abs().max()), *[subtracted] * 2, float(query.shape[-2]), subtracted)
    score = float((query.norm(dim=-1).max() * key.norm(dim=-1).max()) * query.shape[-1] ** -0.5)
    computed = torch.finfo(torch.promote_types(heads[0].dtype, torch.float32)).eps
    for mine, theirs, right, size in zip(found, plain, exact, sizes, strict=False):
        assert mine.dtype == theirs.dtype and mine.shape == right.shape
        rounding = (torch.finfo(mine.dtype).eps + computed * score) * size
        allowed = 2 * float((theirs - right).detach().abs().max()) + rounding
        assert float((mine - right).detach().abs().max()) <= allowed


def test_there_are_samples_of_every_type():
    assert set(DTYPES) == set(operation().dtypes)
    assert all(len(list(samples_of(dtype))) >= 10 for dtype in DTYPES)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_outputs_and_gradients_are_those_of_pytorch_in_any_order_of_memory(dtype, order):
    for heads, options in samples_of(dtype):
        heads = tuple(ORDERS[order](x.detach()).requires_grad_() for x in heads)
        assert_right(results(attention, heads, options), heads, options)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_samples_that_drop_scores_run_and_repeat_with_their_seed(dtype):
    for heads, options in samples_of(dtype, dropped=True):
        found = []
        for _ in range(2):
            torch.manual_seed(5)
            found.append(results(attention, heads, options))
        assert found[0][0].shape == F.scaled_dot_product_attention(*heads, **options).shape
        assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fake_tensors_have_the_shapes_types_and_steps_of_real_ones(dtype):
    for heads, options in (*samples_of(dtype), *samples_of(dtype, dropped=True)):
        real = attention(*heads, **options)
        with FakeTensorMode() as mode:
            given = {name: mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for name, x in options.items()}
            fake = attention(*(mode.from_tensor(x) for x in heads), **given)
        assert (fake.shape, fake.dtype, fake.stride()) == (real.shape, real.dtype, real.stride())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_mapped_and_transformed_samples_are_those_of_pytorch(dtype):
    for heads, options in samples_of(dtype):
        plain = tuple(x.detach() for x in heads)
        stacked = tuple(torch.stack([x, x.flip(0)]) for x in plain)
        mapped = torch.vmap(lambda *a, options=options: attention(*a, **options))(*stacked)

        def total(*a, options=options):
            return attention(*a, **options).sum()

        gradients = torch.func.grad(total, argnums=(0, 1, 2))(*plain)
        assert_right((mapped[0], *gradients), heads, options)
        assert_right((mapped[1],), tuple(x.detach().flip(0).requires_grad_() for x in heads), options)


def test_compiled_samples_are_those_of_pytorch():
    """Some of each type, as one program."""
    given = [sample for dtype in DTYPES for sample in list(samples_of(dtype))[::6]]

    def program(inputs):
        return [attention(*heads, **options) for heads, (_, options) in zip(inputs, given, strict=True)]

    inputs = [heads for heads, _ in given]
    torch._dynamo.reset()
    outputs = torch.compile(program, backend="aot_eager", fullgraph=True, dynamic=False)(inputs)
    for output, (heads, options) in zip(outputs, given, strict=True):
        found = (output, *torch.autograd.grad(output, heads, torch.ones_like(output), retain_graph=True))
        assert_right(found, heads, options)


def test_this_release_of_pytorch_lists_no_errors_of_its_function():
    """Those of ``test_refusals`` stand in for them; a release that lists some has them tried here."""
    assert operation().error_inputs_func is None
