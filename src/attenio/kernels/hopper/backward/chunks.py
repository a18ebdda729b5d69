"""How a backward pass that spills dS is cut into chunks, so that dS of each fits in a workspace.

A chunk is whole batch x KV heads while dS of one fits. Else it is a run of key tiles of one of them, as many as run at
once or a multiple of that, with the rows that see them; and a range of these rows where even so many are too many.
Gradients of queries are then carried from run to run, those of keys from range to range.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from attenio.kernels.hopper.backward.launch_groups import heads_in_turns

WORKSPACE_BYTES = 2**30
# Ranges of rows begin at multiples of this: the rows of a block of queries.
ROW_STEP = 128
# Rows of a tile, by which times are compared.
_ROWS = 64


class Chunk(NamedTuple):
    """Batch x KV heads, key tiles and rows of one launch; blocks take so many of these heads ``together`` in turns.

    It ``carries_queries`` where other chunks add to gradients of the same queries, and ``carries_keys`` where others
    add to those of the same keys, which follow each other.
    """

    batch_heads: range
    tiles: range
    rows: range
    together: int = 1
    carries_queries: bool = False
    carries_keys: bool = False

    @property
    def blocks(self) -> int:
        """Key tiles of all heads: each has a block, and dS of its own."""
        return len(self.batch_heads) * len(self.tiles)


@lru_cache(maxsize=256)
def chunks_of(
    batch_heads: int, spans: tuple[range, ...], ds_bytes: int, rows: int, *, processors: int, workspace: int
) -> tuple[Chunk, ...]:
    """Chunks of heads whose key tiles are seen by ``spans`` of ``rows``; a row of a key tile has ``ds_bytes``."""
    tiles, most = len(spans), workspace // ds_bytes
    together = most // (tiles * rows)
    if together > 0:
        fewest = -(-batch_heads // together)
        cuts = [-(-batch_heads // count) for count in range(fewest, min(2 * fewest, batch_heads) + 1)]
        best = min(cuts, key=lambda size: _rounds(batch_heads, size, tiles, processors))
        together = heads_in_turns(best, tuple(-(-len(span) // _ROWS) for span in spans), processors)
        parts = (range(first, min(first + best, batch_heads)) for first in range(0, batch_heads, best))
        return tuple(Chunk(part, range(tiles), range(rows), together) for part in parts)
    runs = list(_runs(spans, processors, most))
    return tuple(
        Chunk(range(head, head + 1), run, part, 1, len(runs) > 1, len(parts) > 1)
        for head in range(batch_heads)
        for run in runs
        for parts in [_row_ranges(range(rows) if len(runs) == 1 else _seeing(run, spans), most // len(run))]
        for part in parts
    )


@lru_cache(maxsize=256)
def query_heads_in_turns(heads: int, spans: tuple[range, ...], rows: int, processors: int) -> int:
    """Of the heads of a chunk: their blocks of rows come in turns, the last ones first."""
    starts, stops = [span.start for span in spans], [span.stop for span in spans]
    steps = (bisect_left(starts, first + ROW_STEP) - bisect_right(stops, first) for first in range(0, rows, ROW_STEP))
    return heads_in_turns(heads, tuple(max(step, 0) for step in steps)[::-1], processors)


def _rounds(batch_heads: int, size: int, tiles: int, processors: int) -> int:
    """Rounds of blocks that take as long as the chunks of so many heads."""
    whole, rest = divmod(batch_heads, size)
    return whole * -(-size * tiles // processors) + -(-rest * tiles // processors)


def _seeing(run: range, spans: tuple[range, ...]) -> range:
    """Rows that see a key of a run, from a multiple of the step; some, where none do."""
    first, stop = spans[run.start].start // ROW_STEP * ROW_STEP, spans[run.stop - 1].stop
    return range(first, max(stop, first + 64))


def _runs(spans: tuple[range, ...], processors: int, most: int) -> Iterator[range]:
    """Runs of key tiles: multiples of what runs at once, as many as fit with the rows that see them."""
    first = 0
    while first < len(spans):
        run = range(first, min(first + processors, len(spans)))
        while run.stop < len(spans):
            longer = range(first, min(run.stop + processors, len(spans)))
            if len(longer) * len(_seeing(longer, spans)) > most:
                break
            run = longer
        yield run
        first = run.stop


def _row_ranges(rows: range, most: int) -> list[range]:
    """All rows if they are at most so many, else ranges of whole steps, as even as they can be."""
    if len(rows) <= most:
        return [rows]
    parts = -(-len(rows) // max(most // ROW_STEP * ROW_STEP, ROW_STEP))
    size = -(-len(rows) // (parts * ROW_STEP)) * ROW_STEP
    return [range(first, min(first + size, rows.stop)) for first in range(rows.start, rows.stop, size)]
