"""Approximate attention by its features, in single precision: what a certificate's guarantee is measured against.

    for each tile of features:
        Z = sum over tiles of keys of  features(K_tile)^T [V_tile, 1]
        Y += weights * features(Q) Z
    O = Y[:, :-1] / Y[:, -1]

Causal rows come in chunks: keys before a chunk through the features, keys inside it through p(q.k) itself.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray

from attenio.approximation.data import Head
from attenio.approximation.features import FeatureTile, feature_count, feature_tiles
from attenio.approximation.polynomials import Polynomial
from attenio.approximation.rounding import Summation

Float32 = NDArray[np.float32]


def approximate_attention(
    head: Head, polynomial: Polynomial, centre: NDArray[np.float32], summation: Summation
) -> Float32:
    """Outputs of every stacked row; rows that see no key are zero. ``centre`` is subtracted from every key first.

    >>> draw = np.random.default_rng(0)
    >>> from attenio.approximation import minimax
    >>> from attenio.approximation.data import AttentionData
    >>> q, k, v = (draw.uniform(-0.5, 0.5, (16, 4)).astype(np.float32) for _ in range(3))
    >>> head = next(AttentionData.of(q, k, v).heads())
    >>> found = approximate_attention(head, minimax(0.5, 3), np.zeros(4, np.float32), Summation())
    >>> weights = np.exp(q @ k.T / 2)
    >>> bool(np.abs(found - weights @ v / weights.sum(axis=1, keepdims=True)).max() < 1e-3)
    True
    """
    queries, keys, unit = _scaled(head, centre)
    value_exponent = _exponents(np.abs(head.values).max())
    extended = np.column_stack([np.ldexp(head.values, -value_exponent), np.ones(len(keys), dtype=np.float32)])
    features = feature_count(head.d, polynomial.degree)
    sums = np.zeros((len(queries), extended.shape[1]), dtype=np.float32)
    for tile in feature_tiles(head.d, polynomial.degree, most=summation.feature_tile_for(features)):
        weights = tile.weights(polynomial, unit=unit).astype(np.float32)
        for rows, state in _states(head, tile, keys, extended, summation.key_tile_for(len(keys))):
            sums[rows] += (tile.of(queries[rows]) * weights) @ state
    if head.causal:
        coefficients = np.array([c * unit**k for k, c in enumerate(polynomial.coefficients)], dtype=np.float32)
        for rows, first, stop in _chunks(head, summation.key_tile_for(len(keys))):
            if stop > first:
                seen = np.arange(first, stop, dtype=np.int64) <= head.last_key(rows.start, rows.stop)[:, None]
                inside = polyval(queries[rows] @ keys[first:stop].T, coefficients)
                sums[rows] += np.where(seen, inside, np.float32(0)) @ extended[first:stop]
    divisor = sums[:, -1:]
    output = np.divide(sums[:, :-1], divisor, out=np.zeros_like(sums[:, :-1]), where=divisor != 0)
    # outputs are means of values; one that is rounded past the largest of them could overflow its type
    most = np.abs(extended[:, :-1]).max()
    restored: Float32 = np.ldexp(np.clip(output, -most, most), value_exponent)
    return restored


def _scaled(head: Head, centre: NDArray[np.float32]) -> tuple[Float32, Float32, float]:
    """Queries and centred keys with entries of at most 1, so that no power overflows, and the unit of their products.

    Every coordinate has its own power of two, else one that is large in keys and unused by queries would drown the
    others. The unit is then below 4 times the largest scale * |q_t k_t|.
    """
    # halved before they are subtracted: the difference of two keys may exceed the largest number
    halving = _exponents(np.maximum(np.abs(head.keys).max(axis=0), np.abs(centre))) + 1
    keys = np.ldexp(head.keys, -halving) - np.ldexp(centre, -halving)
    sizes = np.abs(head.queries).max(axis=0), np.abs(keys).max(axis=0)
    queries_at, keys_at = _exponents(sizes[0]), _exponents(sizes[1])
    used = (sizes[0] > 0) & (sizes[1] > 0)
    reach = queries_at + keys_at + halving
    largest = int(reach[used].max()) if used.any() else 0
    # what a coordinate stays behind the largest one is shared by both sides
    behind = np.where(used, reach - largest, 0)
    queries = np.ldexp(head.queries, behind // 2 - queries_at)
    return queries, np.ldexp(keys, behind - behind // 2 - keys_at), math.ldexp(head.scale, largest)


def _exponents(sizes: Float32) -> NDArray[np.int32]:
    """The least e with every size below 2^e; multiplying by powers of two rounds nothing."""
    return np.frexp(sizes)[1]


def _states(
    head: Head, tile: FeatureTile, keys: Float32, extended: Float32, key_tile: int
) -> Iterator[tuple[slice, Float32]]:
    """The sums of a tile of features that some rows see, for every such set of rows."""
    state = np.zeros((len(tile), extended.shape[1]), dtype=np.float32)
    if not head.causal:
        for start in range(0, len(keys), key_tile):
            state += tile.of(keys[start : start + key_tile]).T @ extended[start : start + key_tile]
        yield from ((slice(start, start + key_tile), state) for start in range(0, len(head.queries), key_tile))
        return
    reached = 0
    for rows, first, _ in _chunks(head, key_tile):
        if first < reached:  # the next query head begins again
            state[:] = 0
            reached = 0
        while reached < first:
            stop = min(reached + key_tile, first)
            state += tile.of(keys[reached:stop]).T @ extended[reached:stop]
            reached = stop
        if first > 0:
            yield rows, state


def _chunks(head: Head, key_tile: int) -> Iterator[tuple[slice, int, int]]:
    """Rows of one query head, how many keys all of them see, and how many any of them sees."""
    for begin in range(0, len(head.queries), head.rows):
        for start in range(begin, begin + head.rows, key_tile):
            stop = min(start + key_tile, begin + head.rows)
            last = head.last_key(start, stop)
            yield slice(start, stop), int(last[0]) + 1, int(last[-1]) + 1
