"""What the kernels take of a problem: pointers, strides and widths, in the order in which they take them."""

from functools import lru_cache
from math import gcd
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.results import LOG2_E
from attenio.kernels.gpu.band import FAR, Band
from attenio.kernels.gpu.capability import multiplies_parts

# Bytes that one instruction loads, if strides are multiples of so many.
_VECTOR_BYTES = 16
# Bytes of an entry of fp32.
_SINGLE = 4
# Heads of more columns are computed as two powers of two side by side, where that is fewer columns than one.
_WIDE = 256
# Entries of a mask that are loaded at once where its rows begin at multiples of so many.
_ALIGNED = 8


class Widths(NamedTuple):
    """Widths of heads and values, and the powers of two that hold them."""

    d: int
    width: int
    d_padded: int
    width_padded: int


class Columns(NamedTuple):
    """Columns that products are computed in: of keys and of values, each as one power of two or two side by side."""

    d: int
    d_beyond: int
    width: int
    width_beyond: int


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
    # Whether entries are of fp32 and tensor cores do not take their parts: each multiplication is an instruction.
    unrolled: bool = False

    @classmethod
    def of(cls, problem: KernelProblem) -> "Shape":
        """The shape of a problem; ``batch_heads`` are sequences times KV heads."""
        query, device = problem.query, problem.query.device
        shape = _shape(query.shape, problem.value.shape, query.element_size(), Band.of(problem))
        if problem.values_in_keys:
            shape = shape._replace(values_in_keys=True)
        unrolled = shape.element > 2 and device.type == "cuda" and not multiplies_parts(device)
        return shape._replace(unrolled=True) if unrolled else shape

    def unrestricted(self) -> "Shape":
        """The same with every score required."""
        return self._replace(band=Band())

    @property
    def held_bytes(self) -> int:
        """Bytes of an entry as it is given to products: one of fp32 is three of bf16."""
        return 6 if self.in_parts else self.element

    @property
    def in_parts(self) -> bool:
        """Whether entries of fp32 are given to tensor cores as three of bf16."""
        return self.element > 2 and not self.unrolled

    @property
    def both_bytes(self) -> int:
        """Bytes of a row of a head's width and one of its values' width."""
        return (self.widths.d + self.widths.width) * self.element

    @property
    def key_bytes(self) -> int:
        """Bytes of a key and its value, which may be part of it."""
        return self.widths.d * self.element if self.values_in_keys else self.both_bytes

    @property
    def columns(self) -> Columns:
        """What the query-stationary kernel computes in; of a latent, ``d`` holds the columns beyond its values."""
        if self.values_in_keys:
            return Columns(columns_beyond(self.widths, self.element), 0, self.widths.width_padded, 0)
        return columns_of(self.widths)

    @property
    def padded_columns(self) -> tuple[int, int]:
        """Columns that a kernel holds of a query, and of a key with its value: powers of two, or a sum of two."""
        columns = self.columns
        return sum(columns) if self.values_in_keys else columns.d + columns.d_beyond, sum(columns)


class VisibilityArguments(NamedTuple):
    """What is visible and what is dropped, flat: the arguments from ``below`` to ``Sinks`` as every kernel takes
    them (pointers on the device, strides, numbers), and what is known of them at compile time."""

    band: tuple[int, int, float]
    data: tuple[Any, ...]
    always_hides: bool
    boolean: bool
    bias_align: int


def widths_of(problem: KernelProblem) -> Widths:
    """Widths of a problem, and the powers of two that products take."""
    return _widths(problem.query.shape[-1], problem.value.shape[-1], problem.query.element_size())


@lru_cache(maxsize=256)
def columns_of(widths: Widths) -> Columns:
    """Wide heads are computed in two powers of two side by side: 320 columns as 256 and 64, not as 512."""
    return Columns(*_side_by_side(widths.d, widths.d_padded), *_side_by_side(widths.width, widths.width_padded))


def _side_by_side(size: int, padded: int) -> tuple[int, int]:
    if size <= _WIDE or size > 3 * padded // 4:
        return padded, 0
    return padded // 2, padded_columns(size - padded // 2, _SINGLE)


def columns_beyond(widths: Widths, element: int) -> int:
    """The power of two that holds the columns of a latent beyond its values; 0 where it has none."""
    return padded_columns(widths.d - widths.width, element) if widths.d > widths.width else 0


def forward_widths_of(problem: KernelProblem) -> Widths:
    """Widths as forward kernels take them: of a latent, ``d_padded`` holds the columns beyond its values."""
    widths = widths_of(problem)
    if not problem.values_in_keys:
        return widths
    return widths._replace(d_padded=columns_beyond(widths, problem.query.element_size()))


def padded_columns(size: int, element: int) -> int:
    """The power of two that holds so many columns; a product takes at least 16.

    In parts of fp32 it takes 64: with rows of 16 or 32 columns of bf16 that were converted before, wgmma as Triton 3.6
    and ptxas 12.8 issue it reads past the end of shared memory, in some kernels.
    """
    return int(max(64 if element == _SINGLE else 16, 1 << (size - 1).bit_length()))


@lru_cache(maxsize=256)
def _widths(d: int, width: int, element: int) -> Widths:
    return Widths(d, width, *(padded_columns(size, element) for size in (d, width)))


@lru_cache(maxsize=4096)
def _shape(query: tuple[int, ...], value: tuple[int, ...], element: int, band: Band) -> Shape:
    batch, kv_heads, group, queries, d = query
    return Shape(batch * kv_heads, group, queries, value[-2], _widths(d, value[-1], element), element, band)


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


def common_factor(*tensors: Tensor) -> int:
    """What divides all strides but those of columns, up to the entries that one instruction loads."""
    most = _VECTOR_BYTES // tensors[0].element_size()
    return gcd(most, *(step for each in tensors for step in each.stride()[:-1]))


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
        (below, above, scale), data, any(x is not None for x in (query_ids, blocks, bias)), boolean,
        _ALIGNED if all(step % _ALIGNED == 0 for step in steps[:3]) else 1,
    )  # fmt: skip


def _batch_stride(tensor: Tensor) -> int:
    return 0 if tensor.shape[0] == 1 else tensor.stride(0)
