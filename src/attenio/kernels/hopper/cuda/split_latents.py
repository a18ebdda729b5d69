"""The dataflow ``split_keys`` of latents by ``split_latents.cu``: which problems it takes, its proof and its launch."""

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from attenio.kernels.call.choice import Split
from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.call.visibility import Visibility
from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.cuda.launcher import ELEMENTS, WARPGROUP, CudaKernel, CudaLauncher
from attenio.kernels.hopper.cuda.proving import can_compile, is_proven
from attenio.kernels.hopper.cuda.source import Product, source
from attenio.kernels.hopper.descriptors import padded_descriptor
from attenio.kernels.hopper.proving import Computed
from attenio.kernels.replay.launches import launch_compiled

KERNEL = "split_latents_kernel"
LATENT, _BOX = 576, 64
_CONSUMERS, _UNITS, _AHEAD = 2, 5, 2
# Of 64 columns of 64 rows: queries in shared memory, four for each unit, the last columns of a tile, and P.
_BOXES = 2 * 3 + 4 * _UNITS + 1 + 1
# Two numbers of each row twice, and barriers.
_OTHER_BYTES = 4 * 4 * _BOX + 256
SHARED_BYTES = 2 * _BOX * _BOX * _BOXES + _OTHER_BYTES
# The problem that proves a build: sequences, heads, tokens and keys, more programs than SMs and nothing that divides.
_TRIAL, _TRIAL_GROUPS, _TRIAL_BELOW = (12, 2, 3, 21 * 64 + 24), {1: 50, 2: 40}, 150
# So many runs are written in 16 bits.
_NARROW_RUNS = 16


@dataclass(frozen=True, kw_only=True)
class CudaLatentTiles:
    """Rows and keys of a tile, blocks of a cluster, which have rows of their own and share keys, places for halves of
    tiles, and tiles that are brought to L2 in advance."""

    rows: int = 64
    key_tile: int = 64
    cluster: int
    units: int = _UNITS
    ahead: int


class LatentBuild(NamedTuple):
    """What the kernel is compiled for: whether rows see different keys, and whether outputs of runs are fp32."""

    tiles: CudaLatentTiles
    ranged: bool
    wide_runs: bool

    @property
    def constants(self) -> tuple[tuple[str, int], ...]:
        """By their names."""
        return (
            ("CLUSTER", self.tiles.cluster), ("UNITS", self.tiles.units), ("AHEAD", self.tiles.ahead),
            ("RANGED", int(self.ranged)), ("WIDE_RUNS", int(self.wide_runs)), ("SHARED_BYTES", SHARED_BYTES),
        )  # fmt: skip

    @property
    def name(self) -> str:
        """In verdicts and warnings."""
        given = f"clusters of {self.tiles.cluster}, {self.tiles.ahead} tiles ahead"
        return f"latents in {given}{', ranges' * self.ranged}{', fp32 runs' * self.wide_runs}"


class LatentWork(ctypes.Structure):
    """The last parameter of the kernel: addresses, then numbers."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("Output", "Largest", "Total", "Queries", "Keys")),
        *((name, ctypes.c_longlong) for name in ("batch_step", "head_step")),
        *((name, ctypes.c_int) for name in ("kv_heads", "queries", "row_count", "first_key", "stop_key")),
        *((name, ctypes.c_int) for name in ("splits", "row_tiles", "below", "above")),
        ("scale_log2", ctypes.c_float),
    )  # fmt: skip


def tiles_of(problem: KernelProblem) -> CudaLatentTiles | None:
    """Tiles of a latent that ``split_latents`` takes; None where this kernel does not: with sinks, with ranges of each
    row, where latents are not 576 wide, and where all rows fit one tile. Those wait for memory, and the kernel in Gluon
    reads it faster: 152 us and 176 for 64 requests with 16 heads on 8K tokens."""
    if problem.query.shape[-1] != LATENT or problem.sinks is not None or problem.visible.first is not None:
        return None
    if not can_compile(problem.query.device):
        return None
    row_tiles = -(-problem.group * problem.queries // CudaLatentTiles.rows)
    return None if row_tiles == 1 else _tiles(row_tiles, problem.key.stride(2) == LATENT)


@lru_cache(maxsize=64)
def _tiles(row_tiles: int, neighbours: bool) -> CudaLatentTiles:
    """Blocks of a cluster have two row tiles of a run; keys that are no neighbours are not brought to L2 at once."""
    return CudaLatentTiles(cluster=1 if row_tiles % 2 else 2, ahead=_AHEAD if neighbours else 0)


def build_of(tiles: CudaLatentTiles, queries: int, band: Band, split: Split) -> LatentBuild:
    """The build for so many queries of a sequence whose keys are split so."""
    cuts = queries > 1 and (queries - 1 + band.below > split.first or band.above + 1 < split.stop)
    return LatentBuild(tiles, cuts, has_wide_runs(split))


def has_wide_runs(split: Split) -> bool:
    """Whether outputs of runs are written in fp32. Errors of rounding many runs average out: in bf16 those of 64 runs
    are 1.02 times those in fp32, and those of two 1.24 times."""
    return 1 < split.splits < _NARROW_RUNS


_ready: set[tuple[LatentBuild, torch.dtype, torch.device]] = set()


def is_ready(build: LatentBuild, dtype: torch.dtype, device: torch.device, both: Computed) -> bool:
    """Whether a build has given what the definition gives on this device, and is loaded there; while a CUDA graph is
    captured nothing is found out or loaded."""
    if device.type != "cuda" or (build, dtype, device) in _ready:
        return True
    with torch.cuda.device(device):
        if torch.cuda.is_current_stream_capturing() or not is_proven(build.name, dtype, device, both):
            return False
        launcher_of(ELEMENTS[dtype], build, device)
    _ready.add((build, dtype, device))
    return True


def launch_split_latents(
    problem: KernelProblem, query: Tensor, scale: float, runs: tuple[Tensor, ...], split: Split, tiles: CudaLatentTiles
) -> None:
    """Launch it for queries by rows of a KV head; results of every run go to ``runs``."""
    key, rows, band = problem.key, query.shape[2], Band.of(problem)
    row_tiles = -(-rows // tiles.rows)
    build = build_of(tiles, problem.queries, band, split)
    arguments = (
        *runs, query, key, key.stride(0), key.stride(1), problem.kv_heads, problem.queries, rows, split.first,
        split.stop, split.splits, row_tiles, band.below, band.above, scale,
    )  # fmt: skip
    described = padded_descriptor(query, tiles.rows, _BOX), padded_descriptor(key, tiles.key_tile, _BOX)
    programs = problem.batch * problem.kv_heads * split.splits * row_tiles
    launcher = launcher_of(ELEMENTS[query.dtype], build, query.device)
    launch_compiled(launcher, KERNEL, programs, described, arguments, dict(build.constants))


@lru_cache(maxsize=64)
def launcher_of(element: str, build: LatentBuild, device: torch.device) -> CudaLauncher:
    """Compiled and loaded once for each device."""
    del device  # a module belongs to the current one
    threads = WARPGROUP * (_CONSUMERS + 1)
    kernel = CudaKernel(KERNEL, latent_source(element, build), element, threads, SHARED_BYTES, LatentWork, True)
    return CudaLauncher(kernel)


def latent_source(element: str, build: LatentBuild) -> str:
    """The kernel's text: scores with queries in shared memory and in registers, outputs with P in either."""
    products = (
        Product("scores_product", 64, fresh=True), Product("held_scores_product", 64, a_in_registers=True),
        Product("own_outputs_product", 256, a_in_registers=True, b_by_columns=True),
        Product("their_outputs_product", 256, b_by_columns=True),
    )  # fmt: skip
    return source("split_latents", element, dict(build.constants), products)


def trial_of(build: LatentBuild, dtype: torch.dtype, device: torch.device) -> tuple[KernelProblem, int]:
    """A small random problem that proves a build, and the runs that its keys are split into."""
    (batch, kv_heads, queries, keys), group = _TRIAL, _TRIAL_GROUPS[build.tiles.cluster]
    drawn = torch.Generator(device).manual_seed(0)
    query = torch.randn(batch, kv_heads, group, queries, LATENT, generator=drawn, device=device).to(dtype)
    columns = LATENT if build.tiles.ahead else LATENT + 64
    key = torch.randn(batch, kv_heads, keys, columns, generator=drawn, device=device).to(dtype)[..., :LATENT]
    seen = Visibility(group=group)
    if build.ranged:
        seen = Visibility(group=group, below=_TRIAL_BELOW, above=keys - queries)
    problem = KernelProblem(query=query, key=key, value=key[..., :512], visible=seen, scale=LATENT**-0.5)
    return problem, 3 if build.wide_runs else _NARROW_RUNS
