"""The online softmax, a tile of keys at a time, in powers of two: exp2 takes two thirds of the time of exp.

Where queries and keys are short enough that no score can exceed 2^-32..2^32 as a weight, nothing has to be subtracted:
the sums are those of the definition, and a tile costs one exponential and one sum a score. Otherwise the largest score
so far is subtracted, and sums are scaled down as it grows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attenio.kernels.cpu.products import add_product

MOST_SCORE = 32.0


def are_short(query: Tensor, key: Tensor, scale: float) -> bool:
    """Whether no score of scaled queries with keys can exceed what an exponential takes without a subtraction."""
    product = query.norm(dim=-1).amax() * key.norm(dim=-1, dtype=query.dtype).amax()
    return bool(product.item() * abs(scale) <= MOST_SCORE)


@dataclass(kw_only=True)
class Sums:
    """Of every row: outputs not yet divided (..., rows, width), largest score and sum of weights (..., rows, 1)."""

    output: Tensor
    largest: Tensor
    total: Tensor
    subtracts: bool

    @classmethod
    def empty(cls, shape: tuple[int, ...], width: int, precision: torch.dtype, *, subtracts: bool) -> "Sums":
        """Of no key."""
        return cls(
            output=torch.zeros((*shape, width), dtype=precision),
            largest=torch.full((*shape, 1), -torch.inf if subtracts else 0.0, dtype=precision),
            total=torch.zeros((*shape, 1), dtype=precision),
            subtracts=subtracts,
        )

    def weigh(self, scores: Tensor, rows: slice) -> Tensor:
        """Turn scores (..., rows, keys) of some rows into weights 2^score, in place, and add them up."""
        total = self.total[:, rows]
        if self.subtracts:
            largest = self.largest[:, rows]
            grown = torch.maximum(largest, scores.amax(-1, keepdim=True))
            # Where nothing was visible yet there is nothing to subtract, and -inf - -inf would be NaN.
            shift = torch.where(grown == -torch.inf, 0.0, grown)
            shrink = torch.exp2(largest - shift)
            scores.sub_(shift)
            self.output[:, rows].mul_(shrink)
            total.mul_(shrink)
            largest.copy_(grown)
        torch.exp2(scores, out=scores)
        total.add_(scores.sum(-1, keepdim=True))
        return scores

    def accumulate(self, weights: Tensor, values: Tensor, rows: slice) -> None:
        """Add values, weighted."""
        add_product(self.output[:, rows], weights, values)

    def normalised(self) -> Tensor:
        """The outputs; zeros for rows that saw nothing."""
        return self.output.div_(torch.where(self.total == 0.0, 1.0, self.total))


def merged(parts: list[Sums]) -> Sums:
    """The sums over several sets of keys, of the same rows."""
    first, *others = parts
    for other in others:
        largest = torch.maximum(first.largest, other.largest)
        shift = torch.where(largest == -torch.inf, 0.0, largest)
        mine, theirs = torch.exp2(first.largest - shift), torch.exp2(other.largest - shift)
        first = Sums(
            output=first.output * mine + other.output * theirs,
            largest=largest,
            total=first.total * mine + other.total * theirs,
            subtracts=first.subtracts or other.subtracts,
        )
    return first
