"""How even the work of a grid comes out: the pairs of the busiest device over the mean."""

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from attenio.cluster.grid import Grid
from attenio.cluster.partition import Sharding, even_sizes
from attenio.cluster.words import Shares
from attenio.masks import Causal, Dense, SlidingWindow
from attenio.masks.patterns.of_mask import band_of
from attenio.workload import Workload

# Chunks of rows times chunks of keys that are counted one by one; beyond, shares are taken at their largest.
_CHUNK_PAIRS = 2**22


@lru_cache(maxsize=1024)
def imbalance(workload: Workload, grid: Grid, sharding: Sharding) -> Fraction:
    """The largest share of the pairs over the mean one; 1 is exact balance.

    Of causal work in several columns of more than 1,024 devices it is taken as if shares were all at their largest, and
    of several columns of contiguous or striped tokens it is no less than it is.

    >>> imbalance(Workload(n=64, d=4, mask="causal"), Grid(queries=4, keys=2), Sharding.ZIGZAG)
    Fraction(1, 1)
    >>> imbalance(Workload(n=64, d=4, mask="causal"), Grid(queries=4), Sharding.CONTIGUOUS)
    Fraction(113, 65)
    """
    shares = Shares.of(workload, grid, sharding)
    rows, keys = shares.queries.sum(axis=(1, 2)), shares.keys.sum(axis=(0, 2))
    places = grid.queries * grid.keys
    if isinstance(workload.mask, Dense):
        return Fraction(int(rows.max()) * int(keys.max()) * places, workload.queries * workload.keys)
    pairs = workload.scores // (workload.heads * workload.batch)
    if grid.keys == 1:
        most = int(_pairs_of_rows(workload, grid, sharding).max())
    elif isinstance(workload.mask, Causal) and (2 * grid.devices) ** 2 <= _CHUNK_PAIRS and sharding is Sharding.ZIGZAG:
        most = int(_pairs_of_chunks(workload, grid).max())
    else:
        most = min(int(rows.max()) * int(keys.max()), pairs)
        if isinstance(workload.mask, Causal) and sharding is Sharding.ZIGZAG:
            most = -(-most // 2) + int(rows.max())
        if isinstance(workload.mask, Causal) and sharding is Sharding.STRIPED and workload.queries == workload.keys:
            # in turn j of dealing out tokens a device's rows see its keys of the turns up to j, at most
            turns, area = -(-workload.keys // grid.devices), grid.devices**2 // places
            most = min(most, area * turns * (turns + 1) // 2)
    return max(Fraction(most * places, pairs), Fraction(1))


def _pairs_of_rows(workload: Workload, grid: Grid, sharding: Sharding) -> NDArray[np.int64]:
    """Pairs of every row block, where it has all keys."""
    mask = workload.mask
    assert isinstance(mask, Causal | SlidingWindow)
    band = band_of(mask, queries=workload.queries, keys=workload.keys)
    at = np.arange(workload.queries, dtype=np.int64) + band.shift
    seen = np.minimum(at + band.right + 1, workload.keys) - np.maximum(at - band.left, 0)
    seen = np.maximum(seen, 0)
    block = share_of_tokens(workload.queries, grid.devices, sharding) // (grid.keys * grid.heads)
    # sums of floats, and exact: they are whole and below 2**53
    return np.bincount(block, weights=seen, minlength=grid.queries).astype(np.int64)


def share_of_tokens(length: int, shares: int, sharding: Sharding) -> NDArray[np.int64]:
    """The share that every token is in."""
    if sharding is Sharding.STRIPED:
        return np.arange(length, dtype=np.int64) % shares
    pieces = shares if sharding is Sharding.CONTIGUOUS else 2 * shares
    piece = np.repeat(np.arange(pieces, dtype=np.int64), even_sizes(length, pieces))
    return np.minimum(piece, pieces - 1 - piece) if sharding is Sharding.ZIGZAG else piece


def _pairs_of_chunks(workload: Workload, grid: Grid) -> NDArray[np.int64]:
    """Causal pairs of every row block with every column of keys, chunk by chunk."""
    chunks = 2 * grid.devices
    row_ends, key_ends = (
        np.concatenate([[0], np.cumsum(even_sizes(length, chunks))]) for length in (workload.queries, workload.keys)
    )
    shift = workload.keys - workload.queries
    # up_to[i, j]: pairs of the first i chunks of rows with the keys before chunk j
    limit = key_ends[None, :]
    rising = np.clip(limit - shift, 0, row_ends[:, None])  # rows before these see fewer keys than the limit
    some = np.clip(-shift, 0, row_ends[:, None])
    rising = np.maximum(rising, some)
    sums = (rising - some) * (some + rising + 1 + 2 * shift) // 2
    up_to = sums + (row_ends[:, None] - rising) * limit
    pairs = np.diff(np.diff(up_to, axis=0), axis=1)
    place = np.minimum(np.arange(chunks, dtype=np.int64), chunks - 1 - np.arange(chunks, dtype=np.int64)) // grid.heads
    blocks = np.zeros((grid.queries, grid.keys), dtype=np.int64)
    np.add.at(blocks, (place[:, None] // grid.keys, place[None, :] % grid.keys), pairs)
    return blocks
