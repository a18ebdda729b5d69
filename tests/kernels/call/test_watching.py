"""Calls reach their kernels past PyTorch's dispatcher only where nobody would have seen them in it."""

import pytest
import torch
from tests.kernels.new_process import in_a_new_process
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from attenio import attention
from attenio.kernels.call.watching import are_kept_as_they_are, is_concrete, is_unwatched

X = torch.randn(2, 3)


class Seeing(TorchDispatchMode):
    """Names of the operators that pass."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Other(torch.Tensor):
    """A tensor of another class."""


@pytest.mark.parametrize(
    "context", [torch.no_grad, torch.enable_grad, torch.inference_mode, torch.autograd.graph.save_on_cpu]
)
def test_plain_tensors_are_not_watched(context):
    with context():
        made = torch.randn(3)
        assert is_unwatched((X, None, made, torch.nn.Parameter(X), X.clone().requires_grad_()))


@pytest.mark.parametrize("mode", [Seeing, FakeTensorMode])
def test_modes_watch(mode):
    with mode():
        assert not is_concrete((X,)) and not is_unwatched((X,))
    assert is_unwatched((X,))


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_transforms_watch():
    found = []

    def look(x):
        found.append(is_concrete((x,)) or is_concrete((X,)))
        return x.sum()

    torch.vmap(look)(X)
    torch.func.grad(look)(X)
    torch.jit.trace(look, X, check_trace=False)
    torch.export.export(Looking(look), (X,))
    assert found and not any(found)


class Looking(torch.nn.Module):
    def __init__(self, look):
        super().__init__()
        self.look = look

    def forward(self, x):
        return self.look(x)


@pytest.mark.parametrize(
    "tensor", [X.as_subclass(Other), torch._neg_view(X), torch._efficientzerotensor(3), X.to_sparse(), X.to("meta")]
)
def test_tensors_that_are_more_than_their_memory_are_watched(tensor):
    assert not is_concrete((tensor,)) and not is_unwatched((X, tensor))


def test_profilers_and_modes_of_functions_see_the_operator_but_data_may_be_looked_at(none_short):
    q = torch.randn(1, 3, 7, 24)  # a form that is not known yet: known ones are PyTorch's own operator, which it sees
    with torch.profiler.profile() as profile:
        assert is_concrete((q,)) and not is_unwatched((q,))
        attention(q, q, q)
    assert "attenio::attention" in [event.key for event in profile.key_averages()]
    with torch.device("cpu"):  # a mode of functions that make tensors
        assert is_unwatched((q,))
        with TorchFunctionMode():
            assert is_concrete((q,)) and not is_unwatched((q,))


def test_a_mode_sees_the_operator_forward_and_backward(tiles_only):
    q = torch.randn(1, 1, 4, 8, requires_grad=True)
    plain = torch.autograd.grad(attention(q, q, q).sum(), q)
    with Seeing() as seeing:
        watched = torch.autograd.grad(attention(q, q, q).sum(), q)
    assert {"attenio.attention.default", "attenio.attention_backward.default"} <= set(seeing.names)
    assert torch.equal(*plain, *watched)


def test_gradients_of_gradients_are_refused_either_way():
    q = torch.randn(1, 1, 4, 8, dtype=torch.float64, requires_grad=True)
    for watched in (False, True):
        with Seeing() if watched else torch.enable_grad():
            (once,) = torch.autograd.grad(attention(q, q, q).sum(), q, create_graph=True)
            with pytest.raises(RuntimeError, match=r"no second derivative|derivative for .* is not implemented"):
                once.sum().backward()
    for options in ({"is_causal": True, "window": 2}, {"softcap": 5.0}, {"sinks": torch.zeros(1)}):
        (once,) = torch.autograd.grad(attention(q, q, q, **options).sum(), q, create_graph=True)
        with pytest.raises(
            NotImplementedError, match=r"no second derivative; differentiate it once, or call PyTorch's"
        ):
            once.sum().backward()


def test_what_is_saved_passes_hooks(tiles_only):
    q = torch.randn(1, 2, 4, 8, requires_grad=True)
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: packed.append(x.shape) or x, lambda x: x):
        output = attention(q, q, q)
        assert not are_kept_as_they_are()
    tells = hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks")  # PyTorch 2.6 and 2.7 do not
    assert len(packed) == 6 and are_kept_as_they_are() == tells
    torch.autograd.grad(output.sum(), q)


def test_outputs_and_gradients_may_be_written_over():
    q = torch.randn(1, 2, 4, 8, requires_grad=True)
    factor = torch.nn.Parameter(torch.ones(1))
    with torch.no_grad():
        alone = attention(q, q, q)
    output = attention(q, q, q)
    (gradient,) = torch.autograd.grad(output.sum(), q)
    for made in (alone, gradient, attention(q, q, q)):
        assert not made._is_view()
        made.mul_(factor)
    output = attention(q, q, q)
    output.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_where_pytorch_does_not_tell_of_hooks_gradients_are_right_under_them_and_without():
    script = """
import torch
if hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"):
    del torch._C._autograd._top_saved_tensors_default_hooks  # PyTorch 2.6 and 2.7 have none
from attenio import attention
from attenio.kernels.call.watching import are_kept_as_they_are
assert not are_kept_as_they_are()

def gradients(call, hooks):
    heads = [torch.randn(1, 4, 40, 16, generator=torch.Generator().manual_seed(i)).requires_grad_() for i in range(3)]
    with hooks():
        output = call(*heads)
    return torch.autograd.grad(output.square().sum(), heads)

def plain(q, k, v):
    return (2 * torch.tanh(q @ k.mT / 8)).softmax(-1) @ v

wanted = gradients(plain, torch.enable_grad)
for hooks in (torch.enable_grad, torch.autograd.graph.save_on_cpu) * 2:
    for mine, right in zip(gradients(lambda *heads: attention(*heads, softcap=2.0), hooks), wanted):
        torch.testing.assert_close(mine, right, atol=1e-5, rtol=1e-4)
"""
    status, _, errors = in_a_new_process(script)
    assert status == 0, errors
