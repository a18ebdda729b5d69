"""Which tiles may run for a forward kind, in what order, and which of them have been tried on this device."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from attenio.kernels.call.results import Attended
from attenio.kernels.gpu.capability import processors_of
from attenio.kernels.hopper import standing_in
from attenio.kernels.hopper.cuda import attenio as cuda
from attenio.kernels.hopper.cuda.proving import can_compile, is_known, is_proven
from attenio.kernels.hopper.cuda.tiles import CudaTiles
from attenio.kernels.hopper.kind import ForwardKind, cache_bytes
from attenio.kernels.hopper.launch_plans import run
from attenio.kernels.hopper.proving import forward_by_definition, is_right, small_problem
from attenio.kernels.hopper.ranking import Extent, extent_of, ranked_tiles
from attenio.kernels.hopper.tiles import WIDE_TILES, WIDE_WIDTHS, HopperTiles


def candidates(kind: ForwardKind, processors: int | None = None, *, tries: bool = True) -> Sequence[HopperTiles]:
    """Tiles that may run: for dense heads much larger than L2 those that read them from memory least often.

    Unless this ``tries`` them, they are taken to be right until they are tried.
    """
    (d, width), whole = kind.columns, kind.keys % WIDE_TILES.key_tile == 0
    large = kind.band.is_dense and kind.head_bytes > 2 * cache_bytes() and kind.queries >= WIDE_TILES.row_tile
    wide = large and whole and d == width and d in WIDE_WIDTHS and not kind.capped
    if wide and _wide_is_proven(d, kind, tries=tries):
        return (WIDE_TILES,)
    ranked = _ranked(kind, processors, cuda=takes_cuda(kind))
    if isinstance(ranked[0], CudaTiles) and not cuda_is_proven(ranked[0], kind, tries=tries):
        return _ranked(kind, processors, cuda=False)
    return ranked


def _ranked(kind: ForwardKind, processors: int | None, *, cuda: bool) -> Sequence[HopperTiles]:
    ranked = ranked_tiles(*kind.columns, *ranked_for(kind, processors), cuda=cuda)
    return [standing_in.with_masks(kind, tiles) or tiles for tiles in ranked] if kind.repeats else ranked


def takes_cuda(kind: ForwardKind) -> bool:
    """The CUDA kernel has no caps, and its programs do not keep pace with each other."""
    can = not (kind.capped or (kind.band.is_dense and kind.leaves_cache))
    return can and can_compile(kind.device)


def ranked_for(kind: ForwardKind, processors: int | None = None) -> tuple[Extent, int]:
    """What tiles are ranked for: an extent, and so many SMs."""
    processors = processors or processors_of(kind.device)
    return extent_of(kind, processors), processors


def is_tried(tiles: HopperTiles, kind: ForwardKind) -> bool:
    """Whether tiles were tried on this device and found right, or need not be tried."""
    if isinstance(tiles, CudaTiles):
        return is_known(_name(tiles, kind), kind.dtype, kind.device)
    return tiles != WIDE_TILES


def _name(tiles: CudaTiles, kind: ForwardKind) -> str:
    blocks = f" of {tiles.cluster} blocks" if tiles.cluster > 1 else ""
    packed = ", packed" if kind.band.packed else ""
    return f"{tiles.consumers} consumers{blocks} and {tiles.key_tile} keys of {kind.d}/{kind.width}{packed}"


def _wide_is_proven(d: int, kind: ForwardKind, *, tries: bool = True) -> bool:
    """Whether wide rows have given what the definition gives on this device."""
    lengths = 2 * WIDE_TILES.row_tile, 5 * WIDE_TILES.key_tile
    both = partial(_computed_twice, WIDE_TILES, kind, lengths, masked=False) if tries else None
    return is_right(f"wide rows of {d}", kind.dtype, kind.device, both, instead="tiles of fewer rows")


def cuda_is_proven(tiles: CudaTiles, kind: ForwardKind, *, tries: bool = True) -> bool:
    """The same of the tiles of the CUDA kernel, on lengths that none of them divides; all rows see a key."""
    lengths = 2 * tiles.row_tile + 40, (2 * tiles.row_tile // tiles.key_tile + 2) * tiles.key_tile + 24

    def both() -> tuple[list[Tensor], list[Tensor]]:
        stored, columns = tiles.columns(*kind.columns), (kind.d, kind.width)
        constants = cuda.constants_of(tiles, stored, columns, kind.band, kind.keys)
        cuda.begin_compiling_attenio(kind.dtype, constants)  # it may be another than the one that is tried
        return _computed_twice(tiles, kind, lengths, masked=True)

    return is_proven(_name(tiles, kind), kind.dtype, kind.device, both if tries else None)


def _computed_twice(
    tiles: HopperTiles, kind: ForwardKind, lengths: tuple[int, int], *, masked: bool
) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs and log-sum-exps of a small problem by these tiles, and by the definition."""
    packed = kind.band.packed
    trial = small_problem(lengths, (kind.d, kind.width), kind.dtype, kind.device, masked=masked, packed=packed)
    theirs = Attended(*forward_by_definition(trial))
    mine = Attended(*(torch.full_like(part, torch.nan) for part in theirs))
    run(trial, mine, tiles)
    return [mine.output, mine.largest + mine.total.log2()], [theirs.output, theirs.largest + theirs.total.log2()]
