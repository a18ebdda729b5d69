"""What the portable kernels run for a problem: tiles, runs that keys are split into, and what was measured best."""

from dataclasses import dataclass, replace
from functools import lru_cache

from attenio.kernels.call.choice import READ_ONCE, Choice, Split
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.stacking import can_stack
from attenio.kernels.gpu.arguments import Shape, kind_of
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.gpu.tuning import preferred
from attenio.kernels.triton.tiles import BackwardTiles, ForwardTiles, backward_tiles, forward_tiles, splits_for
from attenio.planning import Dataflow, Tiles

_POWERS = "a kernel keeps outputs and scores in fp32 and whole powers of two; of such tiles that fit these move least"
_TWO_PASSES = "scores are computed twice, and no sum is added to by two blocks: gradients repeat to the bit"


@dataclass(frozen=True, kw_only=True)
class TwoPassTiles:
    """Tiles of both passes of a gradient."""

    query_gradient: BackwardTiles
    key_gradients: BackwardTiles


def choose(problem: KernelProblem, processors: int | None = None) -> Choice:
    """What runs on so many SMs; on those of the tensors' device with tiles that were measured there."""
    here = processors or processors_of(problem.query.device)
    if can_stack(problem):
        return _stacked(Shape.of(problem), problem.batch, problem.prefix, here)
    ranked = choices(Shape.of(problem), here)
    if processors is not None or ranked[0].split is not None:
        return ranked[0]
    return preferred(kind_of("forward", problem), ranked, problem.query.device)[0]


@lru_cache(maxsize=1024)
def choices(shape: Shape, processors: int, *, splits_keys: bool | None = None, skipped: int = 0) -> tuple[Choice, ...]:
    """All that may run over the keys from ``skipped`` on, as planned, best first."""
    return tuple(
        _split(shape, each, processors, skipped) if each.splits_keys else _whole(shape, each)
        for each in forward_tiles(shape, processors, splits_keys=splits_keys)
    )


def _whole(shape: Shape, tiles: ForwardTiles) -> Choice:
    rows = max(1, min(shape.queries, tiles.row_tile // tiles.pack))
    return Choice(
        dataflow=Dataflow.ATTENIO, tiles=Tiles.of(query_tile=rows, key_tile=min(tiles.key_tile, shape.keys)),
        language="Triton", name="attenio_kernel", kernel=tiles, why=_POWERS, values_in_keys=shape.values_in_keys,
    )  # fmt: skip


def _split(shape: Shape, tiles: ForwardTiles, processors: int, skipped: int) -> Choice:
    rows = shape.group * shape.queries
    first = max(skipped, max(0, shape.band.below) // tiles.key_tile * tiles.key_tile)
    stop = min(shape.keys, shape.queries + shape.band.above)
    blocks = shape.batch_heads * -(-rows // tiles.row_tile)
    run, splits = splits_for(tiles, blocks, max(1, stop - first), processors)
    return Choice(
        dataflow=Dataflow.SPLIT_KEYS,
        tiles=Tiles.of(
            query_tile=max(1, min(shape.queries, tiles.row_tile // tiles.pack)),
            head_tile=min(shape.group, tiles.row_tile),
            key_tile=min(tiles.key_tile, shape.keys), keys_per_split=min(run, shape.keys),
        ),
        language="Triton", name="split_keys_kernel", kernel=tiles, why=READ_ONCE,
        split=Split(first, stop, run, splits), values_in_keys=shape.values_in_keys,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _stacked(shape: Shape, batch: int, prefix: int, processors: int) -> Choice:
    """The rows of all requests over the keys of their prefix, and each one's over its own keys."""
    common, *_ = choices(prefix_shape(shape, batch, prefix), processors, splits_keys=True)
    tiles = {name: size for name, size in common.tiles.items() if name != "keys_per_split"}
    own, *_ = choices(shape, processors, splits_keys=True, skipped=prefix)
    return replace(common, dataflow=Dataflow.STACKED_GROUPS, tiles=Tiles.of(**tiles), own=own)


def prefix_shape(shape: Shape, batch: int, prefix: int) -> Shape:
    """The shape of a problem whose rows are those of all requests, over the keys of their prefix."""
    return shape.unrestricted()._replace(
        batch_heads=shape.batch_heads // batch, queries=batch * shape.queries, keys=prefix
    )


def choose_backward(problem: KernelProblem, processors: int | None = None, *, with_bias: bool = False) -> Choice:
    """What computes the gradients, of a mask too; on the tensors' device with tiles that were measured there."""
    (first, *_), (second, *_) = (
        tiles if processors is not None else preferred(kind_of(name, problem), tiles, problem.query.device)
        for name, tiles in zip(("query gradient", "key gradients"), backward_tiles(Shape.of(problem)), strict=True)
    )
    return _two_passes(Shape.of(problem), first, second)


@lru_cache(maxsize=1024)
def _two_passes(shape: Shape, first: BackwardTiles, second: BackwardTiles) -> Choice:
    return Choice(
        dataflow=Dataflow.TWO_PASS,
        tiles=Tiles.of(
            query_tile=min(first.stationary, shape.queries), head_tile=1, key_tile=min(first.passing, shape.keys),
            stationary_keys=min(second.stationary, shape.keys), passing_queries=min(second.passing, shape.queries),
        ),
        language="Triton", name="query_gradient_kernel and key_gradients_kernel",
        kernel=TwoPassTiles(query_gradient=first, key_gradients=second), why=_TWO_PASSES,
    )  # fmt: skip
