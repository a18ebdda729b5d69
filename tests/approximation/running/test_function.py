from dataclasses import replace

import pytest
import torch
from tests.approximation.running.problems import bounded

from attenio.approximation.certificate import Certificate, Evidence
from attenio.approximation.running import approximate_attention, certify_tensors


def trusted(certificate: Certificate) -> Certificate:
    """Finite differences step outside: what is checked here is the gradient, not the guarantee."""
    return replace(certificate, scores=replace(certificate.scores, evidence=Evidence.EVERY_SCORE))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("tolerance", "columns"), [(0.3, None), (0.1, 2), (1e-2, None)])
def test_the_gradient_is_that_of_the_formula_itself(causal: bool, tolerance: float, columns: int | None) -> None:
    tensors = bounded(radius=1.0, n=5, heads=1, d=3, value_dim=3, group=2)
    options = {"is_causal": causal, "enable_gqa": True}
    certificate = trusted(certify_tensors(*tensors, tolerance=tolerance, **options))

    def attention(*inputs: torch.Tensor) -> torch.Tensor:
        return approximate_attention(*inputs, certificate=certificate, rows=2, value_columns=columns, **options)

    assert torch.autograd.gradcheck(attention, [t.requires_grad_() for t in tensors])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_gradients_have_the_type_of_the_inputs_and_are_near_those_of_float64(dtype: torch.dtype) -> None:
    found = {}
    for chosen in (dtype, torch.float64):
        torch.manual_seed(1)
        tensors = [t.to(dtype).to(chosen).requires_grad_() for t in bounded(radius=1.0, n=40)]
        certificate = trusted(certify_tensors(*tensors, tolerance=1e-2))
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
