"""Tiles of ``attenio.cu``: key tiles of any multiple of 16, as large as registers and shared memory allow."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from attenio.kernels.gpu.band import Band
from attenio.kernels.hopper.tiles import ROWS, SHARED_BYTES, HopperTiles

# Heads of these widths of keys and values gain by it (``studies/hopper-tiles``).
WIDTHS = ((64, 64), (96, 96), (128, 128), (160, 160), (192, 128), (192, 192), (256, 256))
# Registers of a thread that hold neither output, scores nor weights.
_OTHER_REGISTERS = 28
# Of a panel of shared memory, as the kernel rounds it up.
_ROUND = 1024
_MOST_KEYS, _MOST_STAGES = 128, 3
# Shared memory that each block takes besides its own.
_RESERVED_BYTES = 2**10


@dataclass(frozen=True, kw_only=True)
class CudaTiles(HopperTiles):
    """Consumers have 64 rows, and take turns at the tensor cores.

    With two ``query_buffers`` rows of the next tile are loaded while those of this one are computed. Blocks of a
    ``cluster`` have neighbouring rows, and each loads its share of the keys for all of them.
    """

    query_buffers: int = 1
    cluster: int = 1

    language = "CUDA C++"
    has_unmasked_loop = True
    keeps_pace = False

    @property
    def row_tile(self) -> int:
        """Rows of a program, which is a cluster."""
        return ROWS * self.consumers * self.cluster

    def programs(self, processors: int) -> int:
        """Programs that so many SMs run at a time."""
        return super().programs(processors) // self.cluster

    def columns(self, d: int, width: int) -> tuple[int, int]:
        """Columns of keys and of values that heads of these widths are computed in."""
        return cuda_columns(d, width) or (d, width)

    def missing_rows(self, queries: int, band: Band) -> int:
        """Rows that the first tile has before the first row: of causal heads it sees the fewest keys, the last the
        most, so the first is the one that is not whole."""
        return -queries % self.row_tile if band.is_causal else 0

    def shared_bytes(self, d: int, width: int) -> int:
        """Shared memory of a block: Q of every consumer, stages of K and V, barriers; as the kernel lays it out."""
        key, value, query = (
            -(-2 * size // _ROUND) * _ROUND for size in (self.key_tile * d, self.key_tile * width, ROWS * d)
        )
        rows = self.query_buffers * self.consumers
        return rows * query + self.stages * (key + value) + 8 * (2 * rows + 4 * self.stages)


@lru_cache(maxsize=256)
def cuda_columns(d: int, width: int) -> tuple[int, int] | None:
    """The columns that heads are computed in, if any: their own, or the next where keys are as wide as values."""
    if (d, width) in WIDTHS:
        return d, width
    return next(((each, each) for each, other in WIDTHS if d == width < each == other), None)


def panel(width: int) -> int:
    """Columns of a panel in shared memory, as in the kernel: its rows are as long as the pattern of a swizzle."""
    return 64 if width % 64 == 0 else 32


# What short heads take besides, as (consumers, keys, stages, blocks, query buffers). They are many row tiles of few
# keys, and smaller key tiles leave less of the last one empty. Blocks of one consumer that share an SM compute while
# others load and write rows, and with two query buffers the next rows are there in time.
_SHORT = {
    (64, 64): ((1, 64, 2, 3, 1), (1, 80, 2, 3, 1), (1, 128, 2, 2, 2), (3, 64, 3, 1, 1)),
    (128, 128): (
        (1, 64, 2, 2, 1), (2, 64, 3, 1, 1), (2, 80, 2, 1, 1), (2, 112, 2, 1, 1), (2, 128, 2, 1, 2), (3, 64, 3, 1, 1),
    ),
}  # fmt: skip

# What clusters of two blocks take, as (consumers, keys, stages). Rows of an odd multiple of 8 columns begin within
# sectors: L2 is asked for up to twice as much, and a cluster asks for half of it (``studies/hopper/answer.md``).
_IN_CLUSTERS = {(192, 192): (2, 112, 2), (256, 256): (2, 80, 2)}


@lru_cache(maxsize=64)
def cuda_tiles(d: int, width: int) -> tuple[CudaTiles, ...]:
    """All that may be measured: the largest key tiles of three consumers and of two, the next of two, those that short
    heads take, in place of others of the same rows and keys, and those of clusters."""
    if (d, width) not in WIDTHS:
        return ()
    short = [_of(*sizes) for sizes in _SHORT.get((d, width), ())]
    taken = {(tiles.consumers, tiles.key_tile) for tiles in short}
    clusters = [_of(*_IN_CLUSTERS[d, width], cluster=2)] if (d, width) in _IN_CLUSTERS else []
    return *(each for each in _tiles(d, width) if (each.consumers, each.key_tile) not in taken), *short, *clusters


def _tiles(d: int, width: int) -> Iterator[CudaTiles]:
    for consumers, count in ((3, 1), (2, 2)):
        fitting = [keys for keys in range(_MOST_KEYS, 48, -16) if _fits(_of(consumers, keys, 2), d, width)]
        for keys in fitting[:count]:
            stages = max(count for count in range(2, _MOST_STAGES + 1) if _fits(_of(consumers, keys, count), d, width))
            yield _of(consumers, keys, stages)


def _of(
    consumers: int, key_tile: int, stages: int, blocks: int = 1, query_buffers: int = 1, cluster: int = 1
) -> CudaTiles:
    return CudaTiles(
        consumers=consumers, key_tile=key_tile, stages=stages, blocks=blocks, query_buffers=query_buffers,
        cluster=cluster,
    )  # fmt: skip


def _fits(tiles: CudaTiles, d: int, width: int) -> bool:
    registers = width // 2 + tiles.key_tile // 2 + tiles.key_tile // 4 + _OTHER_REGISTERS
    room = (SHARED_BYTES + _RESERVED_BYTES) // tiles.blocks - _RESERVED_BYTES
    return registers <= tiles.registers and tiles.shared_bytes(d, width) <= room
