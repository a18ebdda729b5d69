"""Attention and its gradients by their definition in float64, and errors beside those of one device."""

import torch
from torch import Tensor

from attenio import attention
from attenio.kernels.call.visibility import Visibility

# Rounding of single precision at sizes near 1: what may remain where one device happens to be exact.
FLOOR = 4e-7


def defined(query: Tensor, key: Tensor, value: Tensor, gradient: Tensor, below: int, above: int) -> list[Tensor]:
    """Output and gradients of queries, keys and values."""
    leaves = [each.detach().double().requires_grad_() for each in (query, key, value)]
    q, k, v = leaves
    group = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(group, 1).mT * q.shape[-1] ** -0.5
    rows, columns = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
    hidden = (columns < rows + below) | (columns > rows + above)
    weights = torch.softmax(scores.masked_fill(hidden, -torch.inf), -1).nan_to_num(0.0)
    output = weights @ v.repeat_interleave(group, 1)
    return [output.detach(), *torch.autograd.grad(output, leaves, gradient.double())]


def on_one_device(query: Tensor, key: Tensor, value: Tensor, gradient: Tensor, **options: object) -> list[Tensor]:
    leaves = [each.detach().clone().requires_grad_() for each in (query, key, value)]
    output = attention(*leaves, enable_gqa=True, **options)
    return [output.detach(), *torch.autograd.grad(output, leaves, gradient)]


def assert_within_twice(found: list[Tensor], alone: list[Tensor], right: list[Tensor]) -> None:
    """Errors are at most twice those of one device: of a tensor as a norm, and of every single element.

    The largest error of one device among few numbers may be luck, so it is taken to be at least the rounding of the
    largest number.
    """
    for mine, one, want in zip(found, alone, right, strict=True):
        errors, others = (each.double() - want for each in (mine, one))
        error, other = float(errors.norm()), float(others.norm())
        assert error <= 2 * other + FLOOR * want.numel() ** 0.5, (error, other)
        if want.numel():
            rounding = torch.finfo(mine.dtype).eps / 2 * float(want.abs().max())
            largest, allowed = float(errors.abs().max()), 2 * max(float(others.abs().max()), rounding) + FLOOR
            assert largest <= allowed, (largest, allowed)


def band(visible: Visibility) -> tuple[int, int]:
    return visible.below, visible.above
