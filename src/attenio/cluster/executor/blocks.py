"""Attention of some queries with some keys by the kernels of this device, and how such parts become a whole.

A part gives outputs and, for every row, the log-sum-exp of its scores in powers of two. Parts of a row are added up by
those, in single precision; the gradients of a part follow from the log-sum-exp of the whole row. On a CPU parts of
tensors in half precision are computed in single precision, some rows at a time: results are rounded once, at the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attenio.cluster.executor.assignment import Assignment
from attenio.cluster.executor.messages import add
from attenio.cluster.spans import Span, Tokens
from attenio.kernels.call.visibility import UNBOUNDED, Visibility
from attenio.kernels.torch_operator.operators import attend, differentiate
from attenio.kernels.torch_operator.schema import Arguments, BackwardArguments

# Tokens that are computed with in single precision at once.
_STRETCH = 256
_HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, kw_only=True)
class Block:
    """Queries and keys at positions that lie in one piece each. ``is_part``: results of other blocks are added."""

    queries: Span
    keys: Span
    work: Assignment
    scale: float
    is_part: bool = False

    @property
    def visible(self) -> Visibility:
        """What the block's own indices may see: the band, moved to where the block lies."""
        shift, last_query = self.queries[0] - self.keys[0], self.queries[1] - self.queries[0] - 1
        below, above = self.work.below + shift, self.work.above + shift
        return Visibility(
            below=-UNBOUNDED if below <= -last_query else below,
            above=UNBOUNDED if above >= self.keys[1] - self.keys[0] - 1 else above,
        )

    def stretches(self, query: Tensor) -> Iterator[tuple["Block", slice]]:
        """The block for so many rows at a time as are computed with at once, and where those are among its rows."""
        start, stop = self.queries
        length = _STRETCH if self.is_wide(query) else max(1, stop - start)
        for first in range(start, stop, length):
            end = min(first + length, stop)
            yield replace(self, queries=(first, end)), slice(first - start, end - start)

    def is_wide(self, tensor: Tensor) -> bool:
        """Whether it is computed in single precision though the tensors are not."""
        return self.is_part and tensor.dtype in _HALF and not tensor.is_cuda

    def computed_with(self, tensor: Tensor) -> Tensor:
        """A tensor in the precision that the block is computed in."""
        return tensor.float() if self.is_wide(tensor) else tensor

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Output and log-sum-exp."""
        query, key, value = (self.computed_with(each) for each in (query, key, value))
        output, largest, total = attend(
            Arguments(
                query, key, value, **self.visible.flattened(), seed=None,
                scale=self.scale, prefix=0, dropout_p=0.0, deterministic=False,
            )
        )  # fmt: skip
        return output, largest + torch.log2(total)

    def differentiate(self, rows: "Rows", key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What these rows and keys give to the gradients of queries, keys and values."""
        hidden, repeats = rows.lse == -torch.inf, torch.are_deterministic_algorithms_enabled()
        query, output, gradient = (self.computed_with(each) for each in (rows.query, rows.output, rows.gradient))
        key, value = self.computed_with(key), self.computed_with(value)
        found = differentiate(
            BackwardArguments(
                query, key, value, **self.visible.flattened(), seed=None,
                output=output, largest=torch.where(hidden, 0.0, rows.lse), total=(~hidden).to(rows.lse.dtype),
                gradient=gradient, scale=self.scale, dropout_p=0.0, deterministic=repeats, with_bias=False,
            ),
            is_part=True,
        )  # fmt: skip
        return found[0], found[1], found[2]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a backward pass needs of rows: queries, dO, log-sum-exp, and outputs, of which only dO . O counts."""

    query: Tensor
    gradient: Tensor
    lse: Tensor
    output: Tensor

    def cut(self, where: slice) -> "Rows":
        """Some of them."""
        return Rows(
            query=self.query[:, :, where], gradient=self.gradient[:, :, where], lse=self.lse[:, :, where],
            output=self.output[:, :, where],
        )  # fmt: skip


def row_products(gradient: Tensor, output: Tensor, precision: torch.dtype) -> Tensor:
    """dO . O of every row, a stretch of tokens after another: no wide copy of a whole tensor is held."""
    found = gradient.new_empty(gradient.shape[:-1], dtype=precision)
    for start in range(0, gradient.shape[2], _STRETCH):
        cut = slice(start, start + _STRETCH)
        found[:, :, cut] = (gradient[:, :, cut].to(precision) * output[:, :, cut].to(precision)).sum(-1)
    return found


def projected_outputs(gradient: Tensor, delta: Tensor) -> Tensor:
    """Outputs with the given products dO . O: those along dO, which are shorter than the true ones.

    So one number a row travels in place of the output.
    """
    found = torch.empty_like(gradient)
    for start in range(0, gradient.shape[-2], _STRETCH):
        cut = slice(start, start + _STRETCH)
        wide, product = gradient[..., cut, :].to(delta.dtype), delta[..., cut, None]
        largest = wide.abs().amax(-1, keepdim=True)
        largest = torch.where(largest == 0.0, 1.0, largest)
        unit = wide / largest
        length = (unit * unit).sum(-1, keepdim=True)
        found[..., cut, :] = unit * (product / largest / torch.where(length == 0.0, 1.0, length))
    return found


class Sum:
    """A sum over parts of tokens, in single precision; one part that covers them all is kept as it is."""

    def __init__(self, shape: tuple[int, ...], like: Tensor) -> None:
        self._shape, self._like = shape, like
        self._total: Tensor | None = None

    def add(self, where: slice, part: Tensor) -> None:
        """Add to some of the tokens."""
        if self._total is None and part.shape == self._shape:
            self._total = part
            return
        self._wide()[:, :, where] += part

    def add_tokens(self, held: Tokens, tokens: Tokens, part: Tensor) -> None:
        """Add to tokens that need not lie in one piece."""
        if self._total is None and part.shape == self._shape:
            self._total = part
        else:
            add(self._wide(), held, tokens, part)

    def _wide(self) -> Tensor:
        if self._total is None:
            self._total = self._like.new_zeros(self._shape)
        elif self._total.dtype != self._like.dtype:
            self._total = self._total.to(self._like.dtype)
        return self._total

    @property
    def total(self) -> Tensor:
        """The sum so far."""
        return self._wide() if self._total is None else self._total


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Outputs and log-sum-exps of rows, over all keys met so far; which spans of rows have met any."""

    output: Tensor
    lse: Tensor
    met: list[slice] = field(default_factory=list)

    @classmethod
    def of_nothing(cls, query: Tensor, width: int) -> "Outputs":
        """Of rows that have seen no key."""
        precision = torch.float64 if query.dtype == torch.float64 else torch.float32
        output = query.new_zeros((*query.shape[:-1], width), dtype=precision)
        return cls(output=output, lse=query.new_full(query.shape[:-1], -torch.inf, dtype=precision))

    def is_first(self, where: slice) -> bool:
        """Whether these rows have met no key before; from now on they have."""
        first = not any(each.start < where.stop and where.start < each.stop for each in self.met)
        self.met.append(where)
        return first

    def add(self, where: slice, output: Tensor, lse: Tensor) -> None:
        """Take in what some of the rows have over other keys."""
        mine, before = self.output[:, :, where], self.lse[:, :, where]
        if self.is_first(where):
            mine.copy_(output)
            before.copy_(lse)
            return
        largest = torch.maximum(before, lse)
        shift = torch.where(largest == -torch.inf, 0.0, largest)
        kept, added = torch.exp2(before - shift), torch.exp2(lse - shift)
        total = kept + added
        safe = torch.where(total == 0.0, 1.0, total)
        mine.mul_((kept / safe)[..., None]).add_(output.to(mine.dtype) * (added / safe)[..., None])
        before.copy_(largest + torch.log2(total))
