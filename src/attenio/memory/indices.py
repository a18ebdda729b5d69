"""Which rows or columns: a plain slice where they are consecutive, an array of indices where they are not."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

# Slices are always concrete: whole start and stop, no step.
Indices = slice | NDArray[np.intp]


def span(count: int) -> slice:
    """The first ``count`` indices."""
    return slice(0, count)


def cuts(count: int, tile: int) -> Iterator[slice]:
    """The first ``count`` indices in tiles, the last one ragged."""
    for start in range(0, count, tile):
        yield slice(start, min(start + tile, count))


def singles(count: int) -> Iterator[slice]:
    """The first ``count`` indices one by one."""
    return cuts(count, 1)


def size(indices: Indices) -> int:
    """How many indices there are."""
    if isinstance(indices, slice):
        return int(indices.stop - indices.start)
    return len(indices)


def as_array(indices: Indices) -> NDArray[np.intp]:
    """The indices one by one."""
    if isinstance(indices, slice):
        return np.arange(indices.start, indices.stop, dtype=np.intp)
    return np.asarray(indices, dtype=np.intp)


def compact(indices: NDArray[np.intp]) -> Indices:
    """A slice when ascending indices are consecutive (numpy reads it without a gather), the array otherwise."""
    if len(indices) == 0:
        return slice(0, 0)
    first, last = int(indices[0]), int(indices[-1])
    return slice(first, last + 1) if last - first + 1 == len(indices) else indices


def compact_if_ascending(indices: NDArray[np.intp]) -> Indices:
    """The same for indices in any order.

    >>> compact_if_ascending(np.array([2, 3, 4])), compact_if_ascending(np.array([0, 3, 2]))
    (slice(2, 5, None), array([0, 3, 2]))
    """
    return compact(indices) if (np.diff(indices) > 0).all() else indices


def compose(outer: Indices, inner: Indices) -> Indices:
    """What the ``inner`` positions of ``outer`` are: ``outer[inner]``."""
    if isinstance(outer, slice):
        if isinstance(inner, slice):
            return slice(outer.start + inner.start, outer.start + inner.stop)
        return np.asarray(inner + outer.start)
    return outer[inner]
