"""Tiles of queries and the keys that each needs, equal neighbours together."""

from collections.abc import Callable, Iterator
from itertools import groupby

import numpy as np

from attenio.accelerator.program import Node, repeat
from attenio.errors import InvalidInput
from attenio.patterns import Pattern
from attenio.planning.problems import Problems

__all__ = ["every_head", "query_tiles"]

# Distinct neighbours that a program may list; past it a mask needs its own closed form.
_MOST_DIFFERENT = 2**14


def query_tiles(pattern: Pattern, query_tile: int) -> Iterator[tuple[int, int, int]]:
    """How many equal tiles follow each other, the rows of each, and the keys it needs."""
    whole, rest = divmod(pattern.rows, query_tile)
    if pattern.is_dense:
        if whole:
            yield whole, query_tile, pattern.keys
        if rest:
            yield 1, rest, pattern.keys
        return
    if whole > _MOST_DIFFERENT:
        raise InvalidInput(
            f"{whole:,} tiles of queries under a mask are more than the {_MOST_DIFFERENT:,} that a program may list;"
            " use a smaller n, a larger cache or a dense mask"
        )
    starts = np.arange(0, pattern.rows, query_tile, dtype=np.int64)
    stops = np.minimum(starts + query_tile, pattern.rows)
    sizes = zip((stops - starts).tolist(), pattern.widths(starts, stops).tolist(), strict=True)
    for (rows, keys), equal in groupby(sizes):
        yield len(list(equal)), rows, keys


def every_head(problems: Problems, head: Callable[[Pattern], tuple[Node, ...]], *, heads: int) -> tuple[Node, ...]:
    """The program of one head on one pattern, for every pattern, ``heads`` times a run."""
    body = tuple(node for pattern, times in problems.patterns for node in repeat(times, *head(pattern)))
    return repeat(heads * problems.runs, *body)
