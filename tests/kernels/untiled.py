"""What gradients are compared with where digits count: an untiled computation, exact or in the precision given."""

import math

import torch

__all__ = ["assert_right", "errors", "untiled"]


def untiled(problem, gradient, seen, rounded=torch.float64):
    """What a forward pass saves, and the gradients, in float64 but for weights, dS and results as ``rounded``."""
    q, k, v, g = (x.double() for x in (problem.query, problem.key[:, :, None], problem.value[:, :, None], gradient))
    scores = (q @ k.mT * problem.scale).masked_fill(~seen, -math.inf)
    largest = scores.amax(-1, keepdim=True).clamp(min=-1e30)
    weights = (scores - largest).exp()
    total = weights.sum(-1, keepdim=True)
    p = weights / torch.where(total == 0, 1.0, total)
    output = (p @ v).to(rounded)
    ds = p * (g @ v.mT - (g * output.double()).sum(-1, keepdim=True))
    p, ds = p.to(rounded).double(), ds.to(rounded).double()
    found = ds @ k * problem.scale, (ds.mT @ q * problem.scale).sum(2), (p.mT @ g).sum(2)
    saved = output, (largest[..., 0] * math.log2(math.e)).float(), total[..., 0].float(), gradient
    return saved, [each.to(rounded).double() for each in found]


def errors(found, problem, gradient, seen):
    """Of each gradient how far off it is, and how far off an untiled computation in the same precision is."""
    _, exact = untiled(problem, gradient, seen)
    _, rounded = untiled(problem, gradient, seen, problem.query.dtype)
    for mine, stored, right in zip(found, rounded, exact, strict=True):
        assert mine.shape == right.shape and mine.dtype == problem.query.dtype
        yield mine.double() - right, stored - right


def assert_right(found, problem, gradient, seen, worst=2.0):
    """No worse than twice an untiled computation in the same precision, every 64 rows by norm.

    The largest error of an element is at most ``worst`` times the largest of the untiled computation. Where that is
    exact, because gradients vanish, sums of fp32 still round.
    """
    for off, allowed in errors(found, problem, gradient, seen):
        for some, theirs in zip(off.split(64, -2), allowed.split(64, -2), strict=True):
            assert some.norm() <= 2 * theirs.norm() + 1e-5
        assert off.abs().max() <= worst * allowed.abs().max() + 1e-5
