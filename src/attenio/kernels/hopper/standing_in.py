"""Which tiles of the forward kernels can stand in for others, and what is compiled for these meanwhile.

A width has five to eight tiles that each win somewhere, each of them another kernel. All of them compute every length,
batch and number of heads that has the same mask, but for those compiled for heads whose scores are all required, which
take whole tiles of keys. These have a twin ``with_masks`` that takes any length, and which is compiled before them.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import torch

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper import gluon_attenio as gluon
from attenio.kernels.hopper.cuda import attenio as cuda
from attenio.kernels.hopper.cuda.tiles import CudaTiles
from attenio.kernels.hopper.kind import ForwardKind
from attenio.kernels.hopper.schedule import LaunchPlan
from attenio.kernels.hopper.tiles import GluonTiles, HopperTiles

# Bands of which the kernel that is tried is compiled: of packed sequences, and of others.
_TRIED_PACKED, _TRIED = Band(packed=True), Band(above=0)


def compiles_for(device: torch.device) -> bool:
    """Whether kernels are compiled for a device; elsewhere they are interpreted."""
    return bool(device.type == "cuda")


def is_compiled(problem: KernelProblem, kind: ForwardKind, tiles: HopperTiles, *, to_be_tried: bool = False) -> bool:
    """Whether all is compiled that a call with these tiles takes, and what tries them on this device."""
    if isinstance(tiles, CudaTiles):
        return all(cuda.is_compiled(kind.dtype, each) for each in _constants(kind, tiles, to_be_tried=to_be_tried))
    assert isinstance(tiles, GluonTiles)
    return gluon.is_compiled(problem, tiles, kind)


def compiled_of(
    ordered: Iterable[HopperTiles], problem: KernelProblem, kind: ForwardKind, is_right: Callable[[HopperTiles], bool]
) -> HopperTiles | None:
    """The first tiles that are compiled for a problem, as they are or with masks, and known to be right."""
    for tiles in ordered:
        for each in filter(None, (tiles, with_masks(kind, tiles))):
            if is_compiled(problem, kind, each) and is_right(tiles):
                return each
    return None


def with_masks(kind: ForwardKind, tiles: HopperTiles) -> HopperTiles | None:
    """The same for scores that may be hidden, though there are none; None where some are, or programs keep pace."""
    paced = kind.pace_of(tiles) or (isinstance(tiles, GluonTiles) and tiles.wide)
    return None if kind.has_masks(tiles) or paced else replace(tiles, masks=True)


def begin_compiling(
    problem: KernelProblem, kind: ForwardKind, plan: LaunchPlan, *, to_be_tried: bool
) -> tuple[Future[Any], ...]:
    """Compile what a plan launches, and what tries its tiles, on threads."""
    if isinstance(plan.tiles, CudaTiles):
        needed = _constants(kind, plan.tiles, to_be_tried=to_be_tried)
        return tuple(cuda.begin_compiling_attenio(kind.dtype, each) for each in needed)
    return (gluon.begin_compiling_attenio(problem, plan),)


def _constants(kind: ForwardKind, tiles: CudaTiles, *, to_be_tried: bool) -> list[tuple[tuple[str, int], ...]]:
    stored, columns = tiles.columns(*kind.columns), (kind.d, kind.width)
    tried = _TRIED_PACKED if kind.band.packed else _TRIED
    bands = (kind.band, tried) if to_be_tried else (kind.band,)
    return list(dict.fromkeys(cuda.constants_of(tiles, stored, columns, band, kind.keys) for band in bands))
