"""A call on many devices, checked: what all ranks have to agree on before a message is sent."""

from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.distributed.tensor import DTensor

import attenio
from attenio.cluster.bytes import stage_bytes
from attenio.cluster.executor.assignment import Assignment, chunked, grid_pairs, spans_of
from attenio.cluster.grid import Grid, check_grid, grids
from attenio.cluster.layouts import check_workload, layout_bytes
from attenio.cluster.partition import Sharding
from attenio.cluster.patches import Patchwork
from attenio.cluster.spans import Span
from attenio.cluster.strips import Owners, Strips, best_strips
from attenio.cluster.words import Shares
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.kernels.call.arguments import CallArguments
from attenio.kernels.call.call import call_of
from attenio.kernels.call.visibility import UNBOUNDED
from attenio.masks import Causal
from attenio.workload import Direction, Workload

TOKENS = 2
# Dimensions of a mesh that say what its grid is, in the order of ranks.
DIMENSIONS = ("queries", "keys", "heads")
# How tokens are spread over ranks.
Spread: TypeAlias = Sharding | Strips | Patchwork
_TYPES = {torch.bfloat16: ElementType.BF16, torch.float16: ElementType.FP16}


@dataclass(frozen=True, kw_only=True)
class ClusterCall:
    """Whole tensors' shapes, what is visible, and how tokens and work are spread."""

    query: tuple[int, ...]
    key: tuple[int, ...]
    value: tuple[int, ...]
    dtype: torch.dtype
    below: int
    above: int
    scale: float
    sharding: Spread
    parts: tuple[int, ...]
    grid: Grid
    layout: Strips | Patchwork | None = None

    @property
    def form(self) -> str:
        """What ranks compare."""
        shapes = (f"{name} {'x'.join(map(str, shape))}" for name, shape in self._shapes)
        return "; ".join((
            *shapes, str(self.dtype).removeprefix("torch."), *self._limits,
            f"scale {self.scale!r}", f"{told(self.sharding)} tokens",
            f"grid {self.grid}" if self.layout is None else f"{kind(self.layout)} {self.layout}",
            f"attenio {attenio.__version__}",
        ))  # fmt: skip

    @property
    def _limits(self) -> list[str]:
        """How far from its own position a query sees keys, where that is limited."""
        sides = {"keys before a query": -self.below, "keys after a query": self.above}
        return [f"{far} {side} seen" for side, far in sides.items() if far < UNBOUNDED]

    @property
    def _shapes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        return ("query", self.query), ("key", self.key), ("value", self.value)

    @property
    def assignment(self) -> Assignment:
        """Who owns and computes what."""
        return _assignment(self)


@lru_cache(maxsize=256)
def _assignment(call: ClusterCall) -> Assignment:
    queries, keys = (spans(shape[TOKENS], call.parts, call.sharding) for shape in (call.query, call.key))
    return Assignment(
        heads=call.grid.heads, queries=queries, keys=keys, pairs=grid_pairs(call.grid),
        below=call.below, above=call.above,
    )  # fmt: skip


def kind(layout: Strips | Patchwork) -> str:
    """What a layout is called."""
    return "strips" if isinstance(layout, Strips) else "patches"


def told(sharding: Spread) -> str:
    """How tokens are spread, in a word or as a layout."""
    return sharding.value if isinstance(sharding, Sharding) else str(sharding)


def spans(tokens: int, parts: tuple[int, ...], sharding: Spread) -> tuple[tuple[Span, ...], ...]:
    """Positions of every rank's tokens; in order, tokens are cut as DTensor cuts them."""
    if sharding is Sharding.CONTIGUOUS:
        return chunked(tokens, parts)
    if not isinstance(sharding, Sharding):
        return tuple(each.spans for each in sharding.homes(tokens))
    return spans_of(tokens, prod(parts), sharding)


def named_sharding(sharding: Spread | str) -> Spread:
    """Layouts as they are, anything else by its name."""
    return sharding if isinstance(sharding, Strips | Patchwork) else Sharding.named(sharding)


def cluster_call(
    shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype, mesh: Any, asked: CallArguments, sharding: Spread
) -> ClusterCall:
    """Check a call of whole tensors with these shapes (batch, heads, tokens, width), and choose its grid."""
    names = ("query", "key", "value")
    for name, shape in zip(names, shapes, strict=True):
        if len(shape) != 4:
            raise InvalidInput(f"{name} has shape {shape}; give (batch, heads, tokens, width)")
    query, key, value = shapes
    if key[:2] != value[:2] or query[0] != key[0] or (not asked.enable_gqa and query[1] != key[1]):
        raise InvalidInput(
            f"query, key and value have {query[:2]}, {key[:2]} and {value[:2]} sequences and heads; make them equal,"
            " or set enable_gqa=True for fewer KV heads"
        )
    whole = [torch.empty(shape, dtype=dtype, device="meta") for shape in shapes]
    found = call_of(whole[0], whole[1], whole[2], asked)
    visible = found.visible
    grid, layout = grid_of_mesh(mesh), None
    if not isinstance(sharding, Sharding) and sharding.devices != mesh.size():
        raise InvalidInput(f"{kind(sharding)} {sharding} are for {sharding.devices} ranks; the mesh has {mesh.size()}")
    if grid is None:
        grid = best_grid(query, key, value, dtype, mesh.size())
        if (visible.below, visible.above) == (-UNBOUNDED, 0):
            layout = layout_for(query, key, value, dtype, grid, sharding)
    check_grid(grid, workload_of(query, key, value, dtype))
    return ClusterCall(
        query=tuple(query), key=tuple(key), value=tuple(value), dtype=dtype, below=visible.below, above=visible.above,
        scale=found.scale, sharding=sharding, parts=tuple(mesh.shape), grid=grid, layout=layout,
    )  # fmt: skip


def grid_of_mesh(mesh: Any) -> Grid | None:
    """The grid that the names of a mesh's dimensions say; None where they say nothing."""
    names = tuple(mesh.mesh_dim_names or ())
    if not names or not set(names) <= set(DIMENSIONS):
        return None
    if sorted(names, key=DIMENSIONS.index) != list(names):
        raise InvalidInput(f"the mesh has dimensions {names}; give them in the order {DIMENSIONS}")
    return Grid(**dict(zip(names, mesh.shape, strict=True)))


def workload_of(query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], dtype: torch.dtype) -> Workload:
    """The shapes as the planner knows them."""
    return Workload(
        queries=max(1, query[TOKENS]), keys=max(1, key[TOKENS]), d=query[3], value_dim=value[3], heads=query[1],
        kv_heads=key[1], batch=query[0], dtype=_TYPES.get(dtype, ElementType.FP32),
    )  # fmt: skip


@lru_cache(maxsize=256)
def layout_for(
    query: tuple[int, ...],
    key: tuple[int, ...],
    value: tuple[int, ...],
    dtype: torch.dtype,
    grid: Grid,
    sharding: Spread,
) -> Strips | Patchwork | None:
    """How causal work is shared: as tokens are spread, or strips whose busiest rank sends less than that of a grid."""
    if query[TOKENS] != key[TOKENS] or sharding in (Sharding.CONTIGUOUS, Sharding.STRIPED):
        return None
    workload = replace(workload_of(query, key, value, dtype), mask=Causal(), direction=Direction.TRAINING)
    if not isinstance(sharding, Sharding):
        check_workload(workload, sharding)
        return sharding
    plan = best_strips(workload, grid.devices, owners=Owners.ZIGZAG)
    if plan is None:
        return None
    sent = np.sum([each.sent for each in layout_bytes(workload, plan.strips)], axis=0)
    return plan.strips if int(sent.max()) < most_bytes(workload, grid) else None


def most_bytes(workload: Workload, grid: Grid) -> int:
    """Bytes that the busiest rank of a grid sends in both passes together."""
    shares = Shares.of(workload, grid, Sharding.CONTIGUOUS)
    each = [
        stage.sent
        for direction in (Direction.FORWARD, Direction.BACKWARD)
        for stage in stage_bytes(workload.towards(direction), grid, shares)
    ]
    return int(np.sum(each, axis=0).max())


@lru_cache(maxsize=256)
def best_grid(
    query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], dtype: torch.dtype, devices: int
) -> Grid:
    """The grid on which the busiest rank sends the fewest bytes in both passes together."""
    workload = workload_of(query, key, value, dtype)
    return min(grids(devices, workload.kv_heads), key=lambda grid: most_bytes(workload, grid))


def check_shards(given: dict[str, DTensor], mesh: Any) -> None:
    """Refuse what is not spread over the mesh by tokens."""
    for name, tensor in given.items():
        if not isinstance(tensor, DTensor):
            raise InvalidInput(f"{name} is a {type(tensor).__name__}; give a DTensor, sharded by tokens (Shard(2))")
        if tensor.device_mesh != mesh:
            raise InvalidInput(f"{name} is on another mesh than the one given; distribute it over that")
        if not all(each.is_shard(TOKENS) for each in tensor.placements):
            raise InvalidInput(
                f"{name} is placed as {tuple(tensor.placements)}; shard it by tokens, Shard(2) in all dimensions of"
                " the mesh"
            )
