from dataclasses import replace

import pytest
import torch
from tests.approximation.running.problems import bounded

from attenio.approximation.certificate import Certificate, certificate_for
from attenio.approximation.running import approximate_attention, certify_tensors


def widened(certificate: Certificate) -> Certificate:
    """Finite differences step outside: one for data that reach a little further."""
    scores = certificate.scores
    names = ("radius", "product", "value_bound", "value_radius")
    return certificate_for(replace(scores, **{name: 1.01 * getattr(scores, name) for name in names}), certificate.terms)


@pytest.mark.parametrize(
    ("causal", "tolerance", "columns"), [(False, 0.3, None), (True, 0.3, 2), (False, 0.1, 2), (True, 1e-2, None)]
)
def test_the_gradient_is_that_of_the_formula_itself(causal: bool, tolerance: float, columns: int | None) -> None:
    tensors = bounded(radius=1.0, n=5, heads=1, d=3, value_dim=3, group=2)
    options = {"is_causal": causal, "enable_gqa": True}
    certificate = widened(certify_tensors(*tensors, tolerance=tolerance, **options))

    def attention(*inputs: torch.Tensor) -> torch.Tensor:
        return approximate_attention(*inputs, certificate=certificate, rows=2, value_columns=columns, **options)

    # Every entry in the first case, and in the others one random direction of all entries at once.
    fast_mode = (causal, tolerance) != (False, 0.3)
    assert torch.autograd.gradcheck(attention, [t.requires_grad_() for t in tensors], fast_mode=fast_mode)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_gradients_have_the_type_of_the_inputs_and_are_near_those_of_float64(dtype: torch.dtype) -> None:
    found = {}
    for chosen in (dtype, torch.float64):
        torch.manual_seed(1)
        tensors = [t.to(dtype).to(chosen).requires_grad_() for t in bounded(radius=1.0, n=40)]
        certificate = certify_tensors(*tensors, tolerance=1e-2)
        approximate_attention(*tensors, certificate=certificate).square().sum().backward()
        found[chosen] = [t.grad for t in tensors]
    for low, high in zip(found[dtype], found[torch.float64], strict=True):
        assert low.dtype == dtype
        torch.testing.assert_close(
            low.double(), high, rtol=4 * torch.finfo(dtype).eps, atol=0.02 * high.abs().max().item()
        )


def test_the_gradient_tends_to_that_of_exact_attention() -> None:
    tensors = bounded(radius=0.5, n=30)
    exact = [t.clone().requires_grad_() for t in tensors]
    torch.nn.functional.scaled_dot_product_attention(*exact).square().sum().backward()
    errors = []
    for tolerance in (0.1, 1e-2, 2e-4):
        near = [t.clone().requires_grad_() for t in tensors]
        approximate_attention(*near, tolerance=tolerance).square().sum().backward()
        errors.append(max(float((a.grad - b.grad).abs().max()) for a, b in zip(near, exact, strict=True)))
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_values_far_from_zero_do_not_spoil_the_gradient_of_queries_and_keys(dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    query, key, value = bounded(radius=1.0, n=60)
    inputs = [t.to(dtype) for t in (query, key, value * 4 + 100)]
    d_output = torch.randn(inputs[2].shape, dtype=torch.float64).to(dtype)
    certificate = certify_tensors(*inputs, tolerance=1e-2)
    found = {}
    for chosen in (dtype, torch.float64):
        leaves = [t.to(chosen, copy=True).requires_grad_() for t in inputs]
        approximate_attention(*leaves, certificate=certificate).backward(d_output.to(chosen))
        found[chosen] = [t.grad.double() for t in leaves[:2]]
    for low, high in zip(found[dtype], found[torch.float64], strict=True):
        assert (low - high).norm() <= 2 * torch.finfo(dtype).eps * high.norm()
