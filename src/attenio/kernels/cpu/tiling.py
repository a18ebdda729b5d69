"""From a plan to the tiles of a CPU kernel.

The fast memory is the largest cache that a core has to itself. The exact optimum there keeps hundreds of rows and
passes keys one at a time; a matrix product that thin runs at a fraction of its rate. So the key tile is raised to
``PRODUCT_KEYS``, where the product has reached its rate, and the query tile is the largest for which the plan's closed
form (Q, O, three statistics and scores of a rows, a tile of keys) still fits. It is rounded down to ``PRODUCT_ROWS``.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch

from attenio.kernels.call.problem import KernelProblem
from attenio.kernels.cpu.host import host_machine, private_boundary

PRODUCT_KEYS = 256
PRODUCT_ROWS = 32
# Measured: with 8 rows a product reads keys at 2.3 GB/s in tiles of 256, at 5.0 GB/s in tiles of 8,192 and no faster.
MOST_KEYS = 8192
# Up to here a product with the keys reads them about as fast as memory gives them.
FEW_ROWS = 32
# Below this many multiplications a task is done before another thread has woken up.
_SMALL = 2**21
_COMPUTED_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What tiles depend on: numbers only, so that plans are found once for each."""

    batch_heads: int
    group: int
    queries: int
    keys: int
    d: int
    width: int
    threads: int
    converts: bool = False
    backward: bool = False

    @classmethod
    def of(cls, problem: KernelProblem, *, backward: bool = False) -> "Shape":
        """The shape of a problem, on as many threads as PyTorch may use."""
        batch, kv_heads, group, queries, d = problem.query.shape
        return cls(
            batch_heads=batch * kv_heads, group=group, queries=queries, keys=problem.keys, d=d,
            width=problem.value.shape[-1], threads=torch.get_num_threads(),
            converts=problem.query.dtype != problem.precision, backward=backward,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """Tiles of a kernel, in positions and keys; ``heads_at_once`` heads or sequences go into one batched product.

    It ``subtracts`` the largest score from others, unless these are known to be small.
    """

    query_tile: int
    key_tile: int
    heads_at_once: int
    keep_bytes: int
    has_few_rows: bool
    is_small: bool
    subtracts: bool = True


@lru_cache(maxsize=4096)
def tiling_for(shape: Shape) -> Tiling:
    """Tiles for this machine's caches."""
    machine = host_machine()
    words = (private_boundary(machine).fast.capacity_bytes or 0) // _COMPUTED_BYTES
    largest_cache = machine.slowest_boundary.fast.capacity_bytes or 0
    rows = shape.group * shape.queries
    few, copies = rows <= FEW_ROWS and not shape.backward, 2 if shape.backward else 1
    held, key_words = copies * (shape.d + shape.width) + 3, max(shape.d, shape.width)
    if few:
        # Scores fill half the cache. Keys and values pass once and need not stay, unless they have to be converted.
        room = min(words // (2 * rows + (key_words if shape.converts else 0)), MOST_KEYS)
    else:
        # Where all rows fit, keys get what rows leave.
        room = min((words - rows * held) // (copies * rows + key_words), MOST_KEYS)
    key_tile = max(1, min(shape.keys, max(PRODUCT_KEYS, room // PRODUCT_KEYS * PRODUCT_KEYS)))
    if not few:  # wide heads of a large group leave room for fewer keys than a product would like
        beside = (words - shape.group * held) // (copies * shape.group + key_words)
        key_tile = min(key_tile, max(PRODUCT_ROWS, beside))
    row_words = held + copies * key_tile
    most = max(PRODUCT_ROWS, (words - key_tile * key_words) // row_words)
    tile = rows if most >= rows or few else most // PRODUCT_ROWS * PRODUCT_ROWS
    query_tile = max(1, min(shape.queries, tile // shape.group))
    if not few and shape.batch_heads < shape.threads:  # positions are what threads share: at least one tile for each
        query_tile = max(1, min(query_tile, -(-shape.queries // -(-shape.threads // shape.batch_heads))))
    # Short sequences: several at once, as long as they fit together and every thread gets some.
    together = words // max(1, query_tile * shape.group * row_words)
    each = rows * shape.keys * (shape.d + shape.width)
    whole = query_tile == shape.queries and each < _SMALL
    heads_at_once = max(1, min(together, shape.batch_heads // shape.threads)) if whole else 1
    return Tiling(
        query_tile=query_tile, key_tile=key_tile, heads_at_once=heads_at_once, has_few_rows=few,
        keep_bytes=largest_cache // max(1, shape.threads), is_small=shape.batch_heads * each < _SMALL,
    )  # fmt: skip
