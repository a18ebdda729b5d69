"""``attention()`` on many devices: DTensors in and out, gradients included."""

from dataclasses import replace
from typing import Any, TypeAlias, TypedDict, Unpack

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.distributed.tensor import DTensor, Shard

from attenio.cluster.executor import layout as layouts
from attenio.cluster.executor.backward import backward
from attenio.cluster.executor.call import (
    TOKENS,
    ClusterCall,
    Spread,
    check_shards,
    cluster_call,
    named_sharding,
    spans,
    told,
    workload_of,
)
from attenio.cluster.executor.decode import attend_replicated
from attenio.cluster.executor.forward import Kept, forward
from attenio.cluster.executor.layout import LayoutPart
from attenio.cluster.executor.part import Part
from attenio.cluster.executor.processes import Processes
from attenio.cluster.executor.transport import Ledger, Network
from attenio.cluster.partition import Sharding
from attenio.errors import InvalidInput
from attenio.kernels.call.arguments import CallArguments, Window
from attenio.masks import Causal
from attenio.names import check_keywords

AnyPart: TypeAlias = Part | LayoutPart
# The ends of meshes, by the world and the ranks that they are of.
_networks: dict[tuple[int, tuple[int, ...]], Network] = {}


class Options(TypedDict, total=False):
    """What is taken of the options of attention on one device."""

    is_causal: bool
    enable_gqa: bool
    window: Window | None
    scale: float | None


def attention(
    query: DTensor, key: DTensor, value: DTensor, *, mesh: Any, sharding: Spread | str = Sharding.CONTIGUOUS,
    **options: Unpack[Options],
) -> DTensor:  # fmt: skip
    """softmax(Q K^T scale) V of DTensors (batch, heads, tokens, width) that are sharded by tokens over a mesh.

    ``is_causal``, ``enable_gqa``, ``window`` and ``scale`` mean what they mean in ``attenio.attention``. All ranks of
    the mesh call it together. ``mesh``: where its dimensions are named "queries", "keys" and "heads" (some of them, in
    this order), they are the grid; otherwise the grid is chosen on which the busiest rank sends the fewest bytes.
    ``sharding``: "contiguous", tokens are in order; "zigzag", every rank has an early and a late chunk
    (``zigzag_positions``), so that all compute as much under a causal mask; strips of rows take the place of a grid
    there where they send less; or strips themselves, as ``attenio.cluster.strips.best_strips`` plans them, or a
    patchwork, as ``attenio.cluster.patches.best_patches`` does: every rank has the tokens of their ``homes``. Queries
    may be replicated instead, with keys sharded, as in decode: then so is the output.
    """
    spread = named_sharding(sharding)
    check_keywords("attention()", options, Options)
    asked = CallArguments(**options)
    replicated = isinstance(query, DTensor) and all(each.is_replicate() for each in query.placements)
    check_shards({"key": key, "value": value} if replicated else {"query": query, "key": key, "value": value}, mesh)
    shapes = tuple(tuple(each.shape) for each in (query, key, value))
    call = cluster_call(shapes, query.dtype, mesh, asked, spread)
    check_lengths(call)
    network = network_of(mesh)
    network.agree(call.form + ("; replicated queries" if replicated else ""))
    local = [each.to_local() for each in (query, key, value)]
    if replicated:
        return DTensor.from_local(attend_replicated(network, call, *local), mesh, query.placements, run_check=False)
    output = attend_shares(network, call, *local)
    shape = (*query.shape[:3], value.shape[3])
    return DTensor.from_local(
        output, mesh, [Shard(TOKENS)] * mesh.ndim, run_check=False, shape=torch.Size(shape), stride=_strides(shape)
    )


def attend_shares(network: Network, call: ClusterCall, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The same for the tensors of one rank, and for whatever network it has."""
    part: AnyPart
    layout = call.layout
    if layout is None:
        part = Part(work=call.assignment, network=network, scale=call.scale)
    else:
        work = replace(workload_of(call.query, call.key, call.value, call.dtype), mask=Causal())
        part = LayoutPart(workload=work, layout=layout, network=network, scale=call.scale)
    output: Tensor = _Attention.apply(part, query, key, value)
    return output


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: AnyPart, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if isinstance(part, LayoutPart):
            output, kept = layouts.forward(part, query, key, value)
        else:
            output, kept = forward(part, query, key, value)
        ctx.part = part
        ctx.save_for_backward(kept.query, kept.key, kept.value, kept.output, kept.lse)
        return output

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        query, key, value, output, lse = ctx.saved_tensors
        kept = Kept(query=query, key=key, value=value, output=output, lse=lse)
        gradient = gradient.contiguous()
        if isinstance(ctx.part, LayoutPart):
            return None, *layouts.backward(ctx.part, kept, gradient)
        return None, *backward(ctx.part, kept, gradient)


def network_of(mesh: Any) -> Network:
    """The end of this process in a mesh; the same one for every call on the same ranks."""
    ranks = tuple(int(each) for each in mesh.mesh.flatten().tolist())
    key = id(dist.group.WORLD), ranks
    if key not in _networks:
        _networks[key] = Network(transport=Processes.of_mesh(mesh))
    return _networks[key]


def ledger(mesh: Any) -> Ledger:
    """Bytes and messages that this rank sent so far on a mesh, by pass and stage."""
    return network_of(mesh).ledger


def check_lengths(call: ClusterCall) -> None:
    """Refuse lengths that a DTensor cuts otherwise than the sharding says."""
    if call.sharding is Sharding.CONTIGUOUS:
        return
    for name, shape in (("query", call.query), ("key", call.key)):
        wanted, cut = (
            [sum(stop - start for start, stop in each) for each in spans(shape[TOKENS], call.parts, sharding)]
            for sharding in (call.sharding, Sharding.CONTIGUOUS)
        )
        if wanted != cut:
            raise InvalidInput(
                f"{name} has {shape[TOKENS]:,} tokens, which {len(wanted)} ranks do not hold {told(call.sharding)} as"
                f" a DTensor; use a multiple of {2 * len(wanted)} tokens"
            )


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(torch.empty(shape, device="meta").stride())
