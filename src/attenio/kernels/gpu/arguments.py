"""What the kernels take of a problem: pointers, strides and widths, in the order in which they take them."""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.gpu.band import FAR, Band


class Widths(NamedTuple):
    """Widths of heads and values, and the powers of two that hold them."""

    d: int
    width: int
    d_padded: int
    width_padded: int


class Shape(NamedTuple):
    """What the order of programs depends on: numbers only, so that it is computed once for each."""

    batch_heads: int
    group: int
    queries: int
    keys: int
    widths: Widths
    element: int
    band: Band
    values_in_keys: bool = False

    @classmethod
    def of(cls, problem: KernelProblem) -> "Shape":
        """The shape of a problem; ``batch_heads`` are sequences times KV heads."""
        shape = _shape(problem.query.shape, problem.value.shape, problem.query.element_size(), Band.of(problem))
        return shape._replace(values_in_keys=True) if problem.values_in_keys else shape

    def unrestricted(self) -> "Shape":
        """The same with every score required."""
        return self._replace(band=Band())

    @property
    def both_bytes(self) -> int:
        """Bytes of a row of a head's width and one of its values' width."""
        return (self.widths.d + self.widths.width) * self.element

    @property
    def key_bytes(self) -> int:
        """Bytes of a key and its value, which may be part of it."""
        return self.widths.d * self.element if self.values_in_keys else self.both_bytes

    @property
    def padded_columns(self) -> tuple[int, int]:
        """Columns that a kernel holds of a query, and of a key with its value: powers of two, or a sum of two."""
        widths = self.widths
        if self.values_in_keys:
            together = widths.width_padded + columns_beyond(widths)
            return together, together
        return widths.d_padded, widths.d_padded + widths.width_padded


class VisibilityArguments(NamedTuple):
    """What is visible and what is dropped, flat: the arguments from ``below`` to ``Sinks`` as every kernel takes
    them (pointers on the device, strides, numbers), and what is known of them at compile time."""

    band: tuple[int, int, float]
    data: tuple[Any, ...]
    always_hides: bool
    boolean: bool


def widths_of(problem: KernelProblem) -> Widths:
    """Widths of a problem; a product takes at least 16."""
    return _widths(problem.query.shape[-1], problem.value.shape[-1])


def columns_beyond(widths: Widths) -> int:
    """The power of two that holds the columns of a latent beyond its values; 0 where it has none."""
    return _power(widths.d - widths.width) if widths.d > widths.width else 0


def forward_widths_of(problem: KernelProblem) -> Widths:
    """Widths as forward kernels take them: of a latent, ``d_padded`` holds the columns beyond its values."""
    widths = widths_of(problem)
    return widths._replace(d_padded=columns_beyond(widths)) if problem.values_in_keys else widths


def _power(size: int) -> int:
    return int(max(16, 1 << (size - 1).bit_length()))


@lru_cache(maxsize=256)
def _widths(d: int, width: int) -> Widths:
    return Widths(d, width, *map(_power, (d, width)))


@lru_cache(maxsize=4096)
def _shape(query: tuple[int, ...], value: tuple[int, ...], element: int, band: Band) -> Shape:
    batch, kv_heads, group, queries, d = query
    return Shape(batch * kv_heads, group, queries, value[-2], _widths(d, value[-1]), element, band)


def kind_of(kernel: str, problem: KernelProblem) -> str:
    """What tiles depend on, as text: calls of one kind share them. Lengths count to the next power of two."""
    seen = problem.visible
    data = tuple(given is not None for given in (seen.first, seen.query_ids, seen.blocks, seen.bias))
    return _kind(kernel, Shape.of(problem), problem.query.dtype, data)


@lru_cache(maxsize=1024)
def _kind(kernel: str, shape: Shape, dtype: torch.dtype, data: tuple[bool, ...]) -> str:
    lengths = (1 << max(0, size - 1).bit_length() for size in (shape.queries, shape.keys))
    bounded = shape.band.below > -FAR
    given = (bounded or shape.band.above < FAR, *data)
    restricted = (name for name, is_so in zip(("band", "ranges", "ids", "blocks", "bias"), given, strict=True) if is_so)
    width = min(shape.keys, shape.band.above - shape.band.below + 1) if bounded else shape.keys
    latent = ("latent",) if shape.values_in_keys else ()
    parts = (
        kernel,
        dtype,
        *shape.widths[:2],
        f"group{shape.group}",
        *lengths,
        *restricted,
        *latent,
        width.bit_length(),
    )
    return " ".join(str(part) for part in parts)


def flops_of(problem: KernelProblem) -> int:
    """Operations of the forward products without any mask: how large the call is."""
    rows = problem.batch * problem.kv_heads * problem.group * problem.queries
    return 2 * rows * problem.keys * int(problem.query.shape[-1] + problem.value.shape[-1])


def scaled(problem: KernelProblem) -> tuple[Tensor, float]:
    """Queries and a factor on scores that is not negative, in units of log2: the kernels take the largest first."""
    query = -problem.query if problem.scale < 0 else problem.query
    return query, abs(problem.scale) * LOG2_E


def strides_of(query: Tensor, key: Tensor, value: Tensor) -> tuple[int, ...]:
    """Strides of queries by heads (the group is the inner one), of keys, of values."""
    batch, _, head, position, dim = query.stride()
    return (batch, head, position, dim, *key.stride(), *value.stride())


def grouped_heads(query: Tensor) -> Tensor:
    """Queries (batch, KV heads, group, queries, d) whose query heads are one stride apart."""
    batch, outer, inner, row, column = query.stride()
    if query.shape[2] == 1:  # of one head any step is given, and none is meant
        return query.as_strided(query.shape, (batch, outer, outer, row, column))
    return query if query.shape[1] == 1 or outer == query.shape[2] * inner else query.contiguous()


def restrictions_of(problem: KernelProblem, scale: float) -> VisibilityArguments:
    """Everything that hides scores, flat."""
    seen, device = problem.visible, problem.query.device
    first, stop, query_ids, key_ids, blocks = (
        None if tensor is None else tensor.to(device).contiguous()
        for tensor in (seen.first, seen.stop, seen.query_ids, seen.key_ids, seen.blocks)
    )
    bias = seen.bias
    boolean = bias is not None and bias.dtype == torch.bool
    if boolean and bias is not None:
        bias = bias.view(torch.uint8)
    steps: tuple[int, ...] = (0, 0, 0, 0)
    if bias is not None:  # one entry may stand for all
        steps = tuple(0 if size == 1 else step for size, step in zip(bias.shape, bias.stride(), strict=True))
    dropout = problem.dropout
    seed = None if dropout is None else torch.tensor([dropout.seed], dtype=torch.int64, device=device)
    data = (
        first, stop, 0 if first is None else _batch_stride(first),
        query_ids, key_ids, 0 if query_ids is None else _batch_stride(query_ids),
        0 if key_ids is None else _batch_stride(key_ids),
        None if blocks is None else blocks.view(torch.uint8), 0 if blocks is None else blocks.shape[1],
        seen.query_block, seen.key_block, bias, *steps, seed, 0.0 if dropout is None else dropout.probability,
        problem.softcap or None, None if problem.sinks is None else problem.sinks.detach().float(),
    )  # fmt: skip
    below, above, _ = Band.of(problem)
    return VisibilityArguments(
        (below, above, scale), data, any(x is not None for x in (query_ids, blocks, bias)), boolean
    )


def _batch_stride(tensor: Tensor) -> int:
    return 0 if tensor.shape[0] == 1 else tensor.stride(0)
