"""How many words the values of some entries of QKᵀ hold, over a finite field. Proofs: docs/theory/fast_products.md

>>> square = np.ones((6, 6), dtype=bool)
>>> message_floor(square, 2, prime=5), rectangle_floor(6, 6, 2)
(12, 20)
>>> entry_floor(36, 2), round(published_floor(36, 2), 3)
(12.0, 8.485)
"""

from collections.abc import Iterable
from fractions import Fraction
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from attenio.errors import InvalidInput
from attenio.fast_products.shape import Shape

Mask = NDArray[np.bool_]
Elements = NDArray[np.int64]

# What is certain in every field of the words that a large field gives: 1 - 7/24, the worst case being q = 2, d = 3.
SMALL_FIELD = Fraction(17, 24)

_MOST_PAIRS = 2**22


def entry_mask(shape: Shape, entries: Iterable[tuple[int, int]]) -> Mask:
    """The entries as a matrix of booleans."""
    mask = np.zeros((shape.rows, shape.keys), dtype=np.bool_)
    for row, key in entries:
        mask[row, key] = True
    return mask


def message_floor(entries: Mask, d: int, *, prime: int) -> int:
    """Words that a message must have from which these entries can be read for every Q and K.

    Theorem: max(sum over rows of min(entries of the row, d), the same over columns), times 17/24 when the field has
    fewer than (touched columns - 1) elements, or rows.
    """
    floors = [0]
    for side in (entries, entries.T):
        words = int(np.minimum(side.sum(axis=1), d).sum())
        touched = int(side.any(axis=0).sum())
        floors.append(words if touched <= prime + 1 else ceil(SMALL_FIELD * words))
    return max(floors)


def entry_floor(entries: int, d: int, *, large_field: bool = True) -> float:
    """The same by the number B of entries alone: min(d sqrt(B), B/2), times 17/24 in a small field."""
    return float(1 if large_field else SMALL_FIELD) * min(d * sqrt(entries), entries / 2)


def published_floor(entries: int, d: int) -> float:
    """The inequality as published: min(d sqrt(B/2), B/4) [Saha & Ye 2024, Thm 4.8]."""
    return min(d * sqrt(entries / 2), entries / 4)


def rectangle_floor(rows: int, keys: int, d: int) -> int:
    """Words that a message must have for all entries of a rectangle, in any field: d (rows + keys - d)."""
    return rows * keys if min(rows, keys) <= d else d * (rows + keys - d)


def jacobian_rank(entries: Mask, d: int, *, prime: int = 65521, seed: int = 0) -> int:
    """Degrees of freedom of these entries: the rank of their Jacobian at a random Q, K over a large field."""
    rng = np.random.default_rng(seed)
    height, width = entries.shape
    Q, K = rng.integers(0, prime, (height, d)), rng.integers(0, prime, (width, d))
    rows = []
    for i, j in np.argwhere(entries).tolist():
        row = np.zeros((height + width) * d, dtype=np.int64)
        row[i * d : (i + 1) * d] = K[j]
        row[(height + j) * d : (height + j + 1) * d] = Q[i]
        rows.append(row)
    return _rank(np.array(rows), prime) if rows else 0


def _rank(matrix: Elements, prime: int) -> int:
    matrix, rank = matrix.copy(), 0
    for column in range(matrix.shape[1]):
        pivots = np.flatnonzero(matrix[rank:, column])
        if len(pivots) == 0:
            continue
        pivot = rank + int(pivots[0])
        matrix[[rank, pivot]] = matrix[[pivot, rank]]
        matrix[rank] = matrix[rank] * pow(int(matrix[rank, column]), -1, prime) % prime
        below = matrix[rank + 1 :, column : column + 1]
        matrix[rank + 1 :] = (matrix[rank + 1 :] - below * matrix[rank]) % prime
        rank += 1
        if rank == len(matrix):
            break
    return rank


def all_elements(shape: Shape, *, prime: int) -> tuple[Elements, Elements]:
    """Every pair Q, K over a tiny field, along the first axis."""
    count = prime**shape.input_words
    if count > _MOST_PAIRS:
        raise InvalidInput(f"there are {count:,} pairs Q, K; choose a shape and a prime with at most {_MOST_PAIRS:,}")
    numbers = np.arange(count, dtype=np.int64)
    digits = numbers[:, None] // prime ** np.arange(shape.input_words, dtype=np.int64) % prime
    cut = shape.rows * shape.depth
    return digits[:, :cut].reshape(-1, shape.rows, shape.depth), digits[:, cut:].reshape(-1, shape.keys, shape.depth)


def distinct_values(words: Iterable[Elements], *, prime: int) -> int:
    """How many different tuples some words take over all pairs; one where there is no word."""
    code, codes = np.zeros(1, dtype=np.int64), 1
    for word in words:
        if codes * prime >= 2**62:  # numbered afresh, codes stay small however many words there are
            numbered, code = np.unique(code, return_inverse=True)
            codes = len(numbered)
        code, codes = code * prime + word, codes * prime
    return len(np.unique(code))
