"""Tiles of queries, keys and values as the products want them: contiguous, in the precision of the computation."""

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.call.visibility import ProblemTile


def cuts(size: int, tile: int, start: int = 0) -> list[slice]:
    """``start .. size`` in pieces of ``tile``."""
    return [slice(at, min(at + tile, size)) for at in range(start, size, tile)]


def batch_heads(problem: KernelProblem, at_once: int) -> list[tuple[slice, slice]]:
    """Sequences and KV heads, about ``at_once`` pairs at a time: heads of one sequence, or whole sequences."""
    heads = min(problem.kv_heads, at_once)
    batch = max(1, at_once // problem.kv_heads)
    return list(product(cuts(problem.batch, batch), cuts(problem.kv_heads, heads)))


def stacked_rows(tensor: Tensor, precision: torch.dtype) -> Tensor:
    """(batch, KV heads, group, positions, width) as (batch * KV heads, rows, width).

    The heads of a position follow each other. Rows in this order make any stretch of positions a stretch of rows.
    """
    ordered = tensor.transpose(2, 3).to(precision, memory_format=torch.contiguous_format, copy=True).contiguous()
    return ordered.flatten(2, 3).flatten(0, 1)


def unstacked_rows(rows: Tensor, into: Tensor) -> None:
    """Write (batch * KV heads, rows, width) to where ``stacked_rows`` would take it from."""
    batch, heads, group, positions, width = into.shape
    into.copy_(rows.view(batch, heads, positions, group, width).transpose(2, 3))


def rows_of(problem: KernelProblem, part: ProblemTile) -> Tensor:
    """The queries of a part as they are, but for the sign of the scale: products are scaled after they are made.

    So are those of an untiled computation; queries scaled before would be rounded once more.
    """
    rows = stacked_rows(problem.query[part.batch, part.heads, :, part.positions], problem.precision)
    return rows if problem.scale > 0.0 else rows.mul_(-1.0 if problem.scale < 0.0 else 0.0)


def as_exponents(problem: KernelProblem, scores: Tensor, by_row: Tensor, part: ProblemTile) -> None:
    """Scale products to exponents of two, in place, and hide what a part may not see; ``by_row`` is a view of them."""
    factor = abs(problem.scale) or 1.0
    if problem.softcap:
        scores.mul_(factor / problem.softcap).tanh_().mul_(problem.softcap * LOG2_E)
    else:
        scores.mul_(factor * LOG2_E)
    if not problem.visible.is_whole(part):
        problem.visible.hide(by_row, part, LOG2_E)


def rows_within(positions: slice, outer: slice, group: int) -> slice:
    """The rows of some positions in a tile that starts with those of ``outer``."""
    return slice((positions.start - outer.start) * group, (positions.stop - outer.start) * group)


def per_row(scores: Tensor, part: ProblemTile, group: int) -> Tensor:
    """Scores (batch * KV heads, rows, keys) as (batch, KV heads, positions, group, keys), without a copy."""
    batch = part.batch.stop - part.batch.start
    split: Tensor = scores.unflatten(0, (batch, -1)).unflatten(2, (-1, group))
    return split


def key_tiles(problem: KernelProblem, part: ProblemTile) -> tuple[Tensor, Tensor]:
    """Keys and values of a part, (batch * KV heads, keys, width), in the precision of the computation."""
    where = (part.batch, part.heads, part.keys)
    key = problem.key[where].to(problem.precision).flatten(0, 1)
    if problem.values_in_keys:
        return key, key[..., : problem.value.shape[-1]]
    return key, problem.value[where].to(problem.precision).flatten(0, 1)


def dropout_factors(problem: KernelProblem, part: ProblemTile, like: Tensor) -> Tensor:
    """What dropout multiplies the weights of a part by, as (batch, KV heads, positions, group, keys)."""
    assert problem.dropout is not None
    shape = (problem.kv_heads, problem.queries, problem.keys)
    return problem.dropout.factors(part, group=problem.group, shape=shape, like=like)


class Keys:
    """Tiles of keys and values of some heads, converted when first used, and stored if all of them fit the cache."""

    def __init__(self, problem: KernelProblem, where: tuple[slice, slice], tile: int, *, keep_bytes: int = 0) -> None:
        self._key, self._value = problem.key[where], problem.value[where]
        self._precision, self.tile, self._in_keys = problem.precision, tile, problem.values_in_keys
        words = self._key.numel() + self._value.numel()
        self._converted: dict[int, tuple[Tensor, Tensor]] | None = {} if words * 4 <= keep_bytes else None

    def tiles(self, within: slice) -> Iterator[slice]:
        """The tiles of a range of keys, in order."""
        return iter(cuts(within.stop, self.tile, within.start))

    def transposed(self, keys: slice, *, copied: bool) -> tuple[Tensor, Tensor]:
        """Keys as (batch * KV heads, d, keys) and values as (batch * KV heads, keys, width).

        With ``copied`` keys are copied into that order: products of many rows run up to twice as fast then.
        """
        if self._converted is not None and keys.start in self._converted:
            return self._converted[keys.start]
        key = self._tile(self._key, keys)
        value = key[..., : self._value.shape[-1]] if self._in_keys else self._tile(self._value, keys)
        tile = (key.transpose(1, 2).contiguous() if copied else key.transpose(1, 2)), value
        if self._converted is not None:
            self._converted[keys.start] = tile
        return tile

    def _tile(self, tensor: Tensor, keys: slice) -> Tensor:
        return readable(tensor[:, :, keys].to(self._precision).flatten(0, 1))


def readable(tensor: Tensor) -> Tensor:
    """The same with contiguous rows: kernels take them to be so without asking."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()
