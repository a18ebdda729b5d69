"""Where the scores that a mask requires lie, once the lengths are known."""

from functools import lru_cache
from typing import assert_never

from attenio.masks.layouts import Layout
from attenio.masks.patterns.band import Band
from attenio.masks.patterns.blocks import BlockPattern
from attenio.masks.patterns.pattern import Pattern
from attenio.masks.values import (
    BandMask,
    BlockSparse,
    Causal,
    Dense,
    Documents,
    LaidOut,
    Mask,
    SharedPrefix,
    SlidingWindow,
)

# Patterns of up to so many blocks of keys are kept for workloads that differ in other things: a megabyte each.
_MOST_KEPT = 512


def band_of(mask: BandMask, *, queries: int, keys: int) -> Band:
    """The required scores of a mask that keeps one run of keys a query; queries are the last positions.

    >>> band_of(SlidingWindow(width=4), queries=8, keys=8).scores
    26
    """
    match mask:
        case Dense():
            return Band.dense(queries, keys)
        case Causal():
            return Band.causal(queries, keys)
        case SlidingWindow(width=width, causal=causal):
            right = 0 if causal else width - 1
            return Band(rows=queries, keys=keys, left=width - 1, right=right, shift=keys - queries)
        case _:
            assert_never(mask)


def patterns_of(mask: Mask, *, queries: int, keys: int) -> tuple[tuple[Pattern, int], ...]:
    """Patterns of one query head of one sequence, each with how many times it occurs there (documents repeat)."""
    match mask:
        case Dense() | Causal() | SlidingWindow():
            return ((band_of(mask, queries=queries, keys=keys), 1),)
        case BlockSparse():
            return ((BlockPattern(rows=queries, keys=keys, layout=mask), 1),)
        case Layout():
            return ((_laid_out(mask, queries, keys), 1),)
        case Documents():
            shapes = list(zip(mask.lengths, mask.key_lengths, strict=True))
            make = Band.causal if mask.causal else Band.dense
            return tuple((make(rows, cols), shapes.count((rows, cols))) for rows, cols in dict.fromkeys(shapes))
        case SharedPrefix():
            make = Band.causal if mask.causal else Band.dense
            return ((make(queries, keys), 1),)
        case _:
            assert_never(mask)


def _laid_out(layout: Layout, queries: int, keys: int) -> BlockPattern:
    """The pattern of a layout; of few blocks the one that was asked for before, with all that was counted of it."""
    return (_kept if keys <= _MOST_KEPT * layout.block else _kept.__wrapped__)(layout, queries, keys)


@lru_cache(maxsize=4)
def _kept(layout: Layout, queries: int, keys: int) -> BlockPattern:
    return BlockPattern(rows=queries, keys=keys, layout=LaidOut(layout=layout, queries=queries, keys=keys))
