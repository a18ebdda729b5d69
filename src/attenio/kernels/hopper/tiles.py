"""Tiles of the Hopper kernels, from the planner's machine: what fits an SM, ranked by a roofline of one key tile.

Registers hold a consumer's output, scores and weights; shared memory holds the rows of Q, ``stages`` tiles of K and V,
and the output on its way out. Of what fits, the time of a key tile is the largest of three: the tensor cores with the
shared memory they read from, the exponentials, and the bytes from L2, all for the rows of one SM.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import ClassVar

from attenio.catalogue import machine_named
from attenio.kernels.gpu.band import Band

ROWS = 64
# Compute capability 9.0 (CUDA C++ Programming Guide, NVIDIA H100 whitepaper), per SM: registers, bytes of shared memory
# that a block may use, operations of the tensor cores, bytes read from shared memory and exponentials in a cycle.
_REGISTERS = 65536
SHARED_BYTES = 227 * 2**10
_TENSOR_FLOPS = 4096
_SHARED_RATE = 128
_EXPONENTIALS = 16
_CLOCK_HZ = 1.98e9
# Registers of a thread that hold neither output, scores nor weights: statistics, addresses, barriers; and more where it
# holds queries, for one of the next tile's weights was spilled without.
_OTHER_REGISTERS, _OTHER_WITH_QUERIES = 28, 36
# Barriers, and what the compiler keeps for itself.
_OTHER_SHARED_BYTES = 2**10
_PRODUCER_REGISTERS = 24
_MOST_REGISTERS = 240
# Candidates that may be measured against each other: each takes seconds to compile.
_MOST = 2


@dataclass(frozen=True, kw_only=True)
class HopperTiles:
    """``consumers`` warpgroups share key tiles, ``stages`` of them on their way, and so many ``blocks`` share an SM.

    With ``masks`` the kernel is compiled for scores that are hidden, though there are none: it takes every length.
    """

    language: ClassVar[str]
    # Key tiles that no mask cuts are computed without one, whether or not the length is a multiple of them.
    has_unmasked_loop: ClassVar[bool]
    # Programs that walk the same keys can wait for each other.
    keeps_pace: ClassVar[bool]

    consumers: int
    key_tile: int
    stages: int
    blocks: int = 1
    masks: bool = False

    @property
    def kernel_name(self) -> str:
        """The kernel that has these tiles."""
        return "attenio_kernel"

    @property
    def row_tile(self) -> int:
        """Rows of a program."""
        return ROWS * self.consumers

    def columns(self, d: int, width: int) -> tuple[int, int]:
        """Columns of keys and of values that heads of these widths are computed in."""
        return d, width

    def programs(self, processors: int) -> int:
        """Programs that so many SMs run at a time."""
        return self.blocks * processors

    def missing_rows(self, queries: int, band: Band) -> int:
        """Rows that the first tile has before the first row."""
        del queries, band
        return 0

    @property
    def registers(self) -> int:
        """Registers of a consumer's thread: an equal share of what the producer leaves."""
        left = 128 * ((self.consumers + 1) * self.registers_at_start - _PRODUCER_REGISTERS)
        return min(_MOST_REGISTERS, left // (128 * self.consumers) // 8 * 8)

    @property
    def registers_at_start(self) -> int:
        """Registers of every thread before the producer gives its own away."""
        return _REGISTERS // (128 * (self.consumers + 1) * self.blocks) // 8 * 8


@dataclass(frozen=True, kw_only=True)
class GluonTiles(HopperTiles):
    """Consumers have 128 rows if ``wide``; ``staged`` output has shared memory of its own, queries that are ``held``
    stay in registers, and weights that are ``shared`` go through shared memory."""

    language = "Gluon"
    has_unmasked_loop = False
    keeps_pace = True

    staged: bool
    ping_pong: bool
    held: bool = False
    wide: bool = False
    shared: bool = False

    @property
    def kernel_name(self) -> str:
        """The kernel that has these tiles."""
        return "attenio_256_rows_kernel" if self.wide else "attenio_kernel"

    @property
    def row_tile(self) -> int:
        """Rows of a program."""
        return ROWS * self.consumers * (2 if self.wide else 1)


def side_by_side(width: int) -> tuple[int, int]:
    """A width as one or two powers of two: 96 is 64 and 32 side by side."""
    large = 1 << (width.bit_length() - 1)
    return large, width - large


# Widths that the kernels compute in: one or two powers of two side by side, 16 columns at least in each product.
WIDTHS = (16, 32, 48, 64, 80, 96, 128, 144, 160, 192, 256)


@lru_cache(maxsize=512)
def computed_width(width: int) -> int:
    """The columns that a head of so many is computed in: those past its own are zeros, which TMA fills in."""
    return next(columns for columns in WIDTHS if columns >= width)


# The most rows that registers hold, and the widths of heads for which they do.
WIDE_TILES = GluonTiles(consumers=2, key_tile=64, stages=4, staged=False, ping_pong=False, wide=True)
WIDE_WIDTHS = (64, 128)


@lru_cache(maxsize=256)
def hopper_tiles(d: int, width: int) -> tuple[GluonTiles, ...]:
    """Tiles for 16-bit heads of these widths, by the roofline: the best, the same with consumers that take turns, and
    the next."""
    first, *others = sorted(possible_tiles(d, width), key=lambda tiles: _rank(tiles, d, width))
    same = (each for each in (first, *others) if (each.consumers, each.key_tile) == (first.consumers, first.key_tile))
    turns = next((each for each in same if each.ping_pong), first)
    return tuple(dict.fromkeys((first, turns, *others)))[:_MOST]


def _rank(tiles: GluonTiles, d: int, width: int) -> tuple[float, ...]:
    # Three consumers hide each other's exponentials best when they take turns at the tensor cores.
    in_turns = tiles.ping_pong == (tiles.consumers == 3)
    return _cycles_per_row(tiles, d, width), tiles.shared, -tiles.key_tile, not in_turns


@lru_cache(maxsize=256)
def possible_tiles(d: int, width: int) -> tuple[GluonTiles, ...]:
    """All tiles that fit an SM: output staged if it can be, and as few stages as there may be.

    A single consumer shares the SM with another block: while one fills or empties its pipeline, the other computes.
    """
    possible = []
    for consumers, key_tile in product((3, 2, 1), (128, 64)):
        plain = next((tiles for tiles in _forms(consumers, key_tile) if _fits(tiles, d, width)), None)
        if plain is not None:
            held = replace(plain, held=True)
            ways = (held, plain) if consumers == 2 and _fits(held, d, width) else (plain,)
            turns = (False,) if consumers == 1 else (False, True)
            possible += [replace(way, ping_pong=turn) for turn in turns for way in ways]
    return tuple(possible)


def _forms(consumers: int, key_tile: int) -> Iterator[GluonTiles]:
    """Forms of these tiles, those first that take least besides products: weights in registers."""
    for shared, stages, staged in product((False, True) if consumers == 3 else (False,), (2, 3), (True, False)):
        yield GluonTiles(
            consumers=consumers, key_tile=key_tile, stages=stages, staged=staged, ping_pong=False,
            blocks=2 if consumers == 1 else 1, shared=shared,
        )  # fmt: skip


def _fits(tiles: GluonTiles, d: int, width: int) -> bool:
    others = _OTHER_WITH_QUERIES if tiles.held else _OTHER_REGISTERS
    weights = 0 if tiles.shared else tiles.key_tile // 4
    registers = (width + tiles.key_tile + (d if tiles.held else 0) // 2) // 2 + weights + others
    words = tiles.row_tile * (d + (width if tiles.staged else 0) + (tiles.key_tile if tiles.shared else 0))
    words += tiles.stages * tiles.key_tile * (d + width)
    # Unstaged output leaves from where Q was, tile by tile.
    placed = tiles.staged or all(b in (a, 0) for a, b in zip(side_by_side(d), side_by_side(width), strict=True))
    return placed and registers <= tiles.registers and 2 * words + _OTHER_SHARED_BYTES <= SHARED_BYTES // tiles.blocks


def _cycles_per_row(tiles: GluonTiles, d: int, width: int) -> float:
    """Cycles of an SM for a row and a key: the largest of what runs side by side."""
    n = tiles.key_tile
    scores = max(2 * ROWS * n * d / _TENSOR_FLOPS, 2 * (ROWS + n) * d / _SHARED_RATE)  # Q is read from shared memory
    weights = 2 * 2 * ROWS * n if tiles.shared else 0  # written and read
    outputs = max(2 * ROWS * n * width / _TENSOR_FLOPS, (2 * n * width + weights) / _SHARED_RATE)
    level = machine_named("h200").levels
    l2_rate = (level[1].bandwidth_bytes_per_s or 0.0) / level[0].units / _CLOCK_HZ
    from_l2 = 2 * n * (d + width) / l2_rate / tiles.consumers
    return max(scores + outputs, ROWS * n / _EXPONENTIALS, from_l2) / (ROWS * n)
