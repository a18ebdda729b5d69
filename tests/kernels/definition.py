"""Attention and its gradients by the definition, untiled, in the precision of the arguments."""

import torch


def definition(q, k, v, seen=None, bias=None, scale=None):
    """softmax(Q K^T scale + bias) V; rows that see nothing give zeros."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if seen is not None:
        scores = scores.masked_fill(~seen, -torch.inf)
    dead = (scores == -torch.inf).all(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(dead, 0.0), -1).masked_fill(dead, 0.0) @ v


def gradients(function, q, k, v, g):
    """The output, and the gradients of queries, keys and values."""
    inputs = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    output = function(*inputs)
    return (output.detach(), *torch.autograd.grad(output, inputs, g))
