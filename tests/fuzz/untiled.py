"""The definition and its gradients, untiled: exact in float64, and rounded as the precision of a call rounds.

An answer may be off by twice as much as the untiled computation in its own precision, plus what one rounding of each
term is worth: where few numbers are computed, that computation may be right by luck.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Results(NamedTuple):
    """Output, and gradients of queries, keys, values and bias."""

    output: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor


class Scoring(NamedTuple):
    """What is done to products of queries and keys; a sink for each head takes weight and gives nothing."""

    scale: float | None
    softcap: float | None = None
    sinks: Tensor | None = None


class _Given(NamedTuple):
    """Tensors in four dimensions, keys and values repeated for every query head."""

    q: Tensor
    k: Tensor
    v: Tensor
    g: Tensor
    bias: Tensor
    scale: float
    softcap: float | None
    sinks: Tensor | None

    def weights(self) -> tuple[Tensor, Tensor]:
        """Weights of keys, and the slopes of their scores under a cap."""
        products = self.q @ self.k.mT * self.scale
        slopes = torch.ones_like(products)
        if self.softcap is not None:
            capped = torch.tanh(products / self.softcap)
            products, slopes = self.softcap * capped, 1.0 - capped * capped
        scores = products + self.bias
        if self.sinks is None:
            return _weights(scores), slopes
        beside = self.sinks.to(scores.dtype).view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        return _weights(torch.cat([scores, beside], -1))[..., :-1], slopes


def _given(tensors: tuple[Tensor, ...], seen: Tensor, scoring: Scoring, precision: torch.dtype) -> _Given:
    q, k, v, g, bias = tensors
    group = q.shape[1] // k.shape[1]
    wide = [x.to(precision) for x in (q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), g)]
    added = (
        torch.zeros_like(bias, dtype=precision).masked_fill(~bias, -math.inf)
        if bias.dtype == torch.bool
        else bias.to(precision)
    )
    added = added + torch.zeros_like(seen, dtype=precision).masked_fill(~seen, -math.inf)
    scale = q.shape[-1] ** -0.5 if scoring.scale is None else scoring.scale
    return _Given(wide[0], wide[1], wide[2], wide[3], added, scale, scoring.softcap, scoring.sinks)


def _weights(scores: Tensor) -> Tensor:
    dead = (scores == -math.inf).all(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(dead, 0.0), -1).masked_fill(dead, 0.0)


def _over_group(tensor: Tensor, kv_heads: int) -> Tensor:
    summed: Tensor = tensor.unflatten(1, (kv_heads, -1)).sum(2)
    return summed


def untiled(tensors: tuple[Tensor, ...], seen: Tensor, scoring: Scoring, rounded: torch.dtype) -> Results:
    """Results for (Q, K, V, dO, bias); weights, dS and results are rounded to ``rounded``."""
    precision = torch.float64 if rounded == torch.float64 else torch.float32
    x = _given(tensors, seen, scoring, precision)
    p, slopes = x.weights()

    def stored(tensor: Tensor) -> Tensor:
        return tensor.to(rounded).to(precision)

    output = stored(stored(p) @ x.v)
    ds = p * (x.g @ x.v.mT - (x.g * output).sum(-1, keepdim=True))
    kv, raw = tensors[1].shape[1], stored(ds * slopes)
    results = (
        output,
        raw @ x.k * x.scale,
        _over_group(raw.mT @ x.q, kv) * x.scale,
        _over_group(stored(p).mT @ x.g, kv),
        ds.sum_to_size(tensors[4].shape),
    )
    return Results(*(stored(each).double() for each in results))


def allowed(
    tensors: tuple[Tensor, ...], seen: Tensor, scoring: Scoring, rounded: torch.dtype
) -> tuple[Results, Results]:
    """The exact results, and how far off each head of a result may be, (batch, heads, 1, 1)."""
    exact = untiled(tensors, seen, scoring, torch.float64)
    mine = untiled(tensors, seen, scoring, rounded)
    x = _given(tensors, seen, scoring, torch.float64)
    eps, eps_sum = (
        torch.finfo(rounded).eps,
        torch.finfo(torch.float64 if rounded == torch.float64 else torch.float32).eps,
    )
    size = (x.q.abs() @ x.k.abs().mT * abs(x.scale) + x.bias.abs()).masked_fill(x.bias == -math.inf, 0.0)
    (p, _), kv = x.weights(), tensors[1].shape[1]
    # A score is off by its own size; terms of a sum are off by theirs, and dP - dO.O may cancel.
    eps_sum *= 8.0 + 4.0 * float(size.max()) if size.numel() else 8.0
    output, into = p @ x.v, x.g @ x.v.mT
    inner = (x.g * output).sum(-1, keepdim=True)
    terms = x.g.abs() @ x.v.abs().mT + (x.g.abs() * (p @ x.v.abs())).sum(-1, keepdim=True)
    # Where an output is stored, its elements are rounded one by one, and dO.O with them.
    stored = (x.g * output).norm(dim=-1, keepdim=True)
    ds = p * (eps * ((into - inner).abs() + stored) + eps_sum * terms)
    floors = (
        (eps + eps_sum) * (p @ x.v.abs()),
        ds @ x.k.abs() * abs(x.scale),
        _over_group(ds.mT @ x.q.abs(), kv) * abs(x.scale),
        (eps + eps_sum) * _over_group(p.mT @ x.g.abs(), kv),
        ds.sum_to_size(tensors[4].shape),
    )
    tiny = torch.finfo(rounded).tiny if rounded != torch.float16 else 2.0**-24
    limits = [
        (2.0 * (theirs - right).abs() + floor).amax((-2, -1), keepdim=True) + tiny if right.numel() else floor
        for theirs, right, floor in zip(mine, exact, floors, strict=True)
    ]
    return exact, Results(*limits)
