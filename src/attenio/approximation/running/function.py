"""The formula as a function that PyTorch can differentiate: features are recomputed in the backward pass."""

from typing import Any

import torch

from attenio.approximation.running.backward import Gradients, Results, backward
from attenio.approximation.running.formula import Formula
from attenio.approximation.running.forward import forward
from attenio.approximation.running.loading import Tensor
from attenio.approximation.running.sweeps import Heads, head_tiles
from attenio.errors import InvalidInput


class PolynomialAttention(torch.autograd.Function):
    """O from query (heads, group, n, d), key, value and the keys' centre; nothing of size n x features is ever kept."""

    @staticmethod
    def forward(  # noqa: PLR0913 - one argument for every input that may have a gradient
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, centre: Tensor | None, balance: Tensor, formula: Formula
    ) -> Tensor:
        """One pass over keys and one over queries, or both at once."""
        heads, group, n, _ = query.shape
        # rounded to its type at the end: the gradient takes dO . O, which offset values would spoil with a rounded O
        sums = balance.new_empty(heads, group, n, value.shape[-1])
        denominators = balance.new_empty(heads, group, n)
        for some in head_tiles(formula, heads, group):
            forward(_batch(query, key, value, centre, balance, some), formula, sums[some], denominators[some])
        if not bool((denominators > 0).all()):
            raise InvalidInput(
                "a denominator is not positive: scores reach beyond the certificate; certify these data, or use exact"
            )
        output = sums.to(value.dtype)
        if not bool(torch.isfinite(output).all()):
            raise InvalidInput(
                "outputs are not finite: features times values overflow; divide values, or coordinates of queries or"
                " keys that are far larger than the others, by powers of two, or use exact"
            )
        ctx.save_for_backward(query, key, value, centre, balance, sums, denominators)
        ctx.formula = formula
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Two or three more passes."""
        query, key, value, centre, balance, output, denominators = ctx.saved_tensors
        to_query, to_key, to_value = (balance.new_zeros(tensor.shape) for tensor in (query, key, value))
        into = Gradients(query=to_query, key=to_key, value=to_value)
        for some in head_tiles(ctx.formula, query.shape[0], query.shape[1]):
            results = Results(output=output[some], denominators=denominators[some], gradient=gradient[some])
            parts = Gradients(query=into.query[some], key=into.key[some], value=into.value[some])
            backward(_batch(query, key, value, centre, balance, some), ctx.formula, results, parts)
        to_centre = None if centre is None else -into.key.sum(1, keepdim=True)
        to_inputs = (into.query.to(query.dtype), into.key.to(key.dtype), into.value.to(value.dtype))
        return (*to_inputs, to_centre, None, None)


def _batch(query: Tensor, key: Tensor, value: Tensor, centre: Tensor | None, balance: Tensor, some: slice) -> Heads:
    middle = None if centre is None else centre[some]
    return Heads(query=query[some], key=key[some], value=value[some], centre=middle, balance=balance[some])
