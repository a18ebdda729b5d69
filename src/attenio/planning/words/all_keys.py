"""Under a causal mask all keys stay while rows pass, and their gradients come tile by tile: words, room, and the best.

Everything works on integers and on arrays of many cases.
"""

from collections.abc import Iterable, Iterator
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import clip, floor_div, larger, smaller, where
from attenio.planning.words.turn_rooms import FEW, NEVER, best_of_tried

Ints = NDArray[np.int64]
# Keys that have left before a tile, and after it.
Tile = tuple[Counts, Counts]
# So many numbers are tried about where words bend, for rounding; and where so many tiles begin to need more rows.
_ROUNDS = 6
_BENDS = 6


class AllKeys(NamedTuple):
    """All m keys of a causal problem stay, and the last ones leave first, tile after tile, with their gradients.

    The first tile has b keys at most; when F keys have left their gradients have the room of F*per_key/per_sum more.
    Tiles are as few as they may be, and then those that come early as small. Rows come when all of their keys are
    there, but for those of the last tile; those that met earlier tiles come again, ``loads`` words each, but for the
    last s of all rows, which stay; the first time that one leaves it stores ``once``. It holds
    s*per_row + ``beside`` words, and those of the largest tile beside the keys that are there, m*per_key + b*per_sum at
    most. A position has ``group`` rows.
    """

    tile: str
    rows: str
    per_key: Counts
    per_sum: Counts
    per_row: Counts
    beside: Counts
    loads: Counts
    once: Counts
    group: Counts


class Sizes(NamedTuple):
    """Keys whose gradients come first, and rows that stay."""

    keys: Counts
    rows: Counts


def cut(phase: AllKeys, shape: tuple[Counts, Counts], sizes: Sizes) -> Sizes:
    """No more than there are."""
    return Sizes(smaller(sizes.keys, shape[1]), smaller(sizes.rows, phase.group * shape[0]))


def _tiles(phase: AllKeys, keys: Counts, first: Counts) -> Iterator[Tile]:
    """Keys that have left before a tile, and after it, the last tile first; none where there are no more tiles."""
    times, after = phase.per_sum // phase.per_key, keys
    while after > 0 if type(after) is int else np.any(after > 0):
        more = larger(after - first, 0)  # so few leave before that gradients of the others have room
        before = more // (times + 1) * times + more % (times + 1)
        yield before, after
        after = before


def held_words(phase: AllKeys, shape: tuple[Counts, Counts], sizes: Sizes) -> Counts:
    """Words held at once."""
    keys, rows = cut(phase, shape, sizes)
    return _held_by_tiles(phase, shape[1], _tiles(phase, shape[1], keys)) + rows * phase.per_row


def _held_by_tiles(phase: AllKeys, keys: Counts, tiles: Iterable[Tile]) -> Counts:
    most = 0 * keys
    for before, after in tiles:
        most = larger(most, (keys - before) * phase.per_key + (after - before) * phase.per_sum)
    return most + phase.beside


def words_of_tiles(phase: AllKeys, shape: tuple[Counts, Counts], sizes: Sizes) -> Counts:
    """Words of all rows that come again: before a tile as many positions have come as keys have left."""
    keys, rows = cut(phase, shape, sizes)
    return _words_beside(phase, shape[0], rows, _tiles(phase, shape[1], keys))


def _words_beside(phase: AllKeys, positions: Counts, rows: Counts, tiles: Iterable[Tile]) -> Counts:
    words = last = 0 * rows
    for before, _ in tiles:
        again = larger(phase.group * smaller(positions, before) - rows, 0)
        words, last = words + phase.loads * again, larger(last, again)
    return words + phase.once * last


def _most_keys(phase: AllKeys, keys: Counts, fast_words: Counts) -> tuple[Counts, Counts]:
    """Words beside all keys, and keys whose gradients fit there at once."""
    free = fast_words - phase.beside - keys * phase.per_key
    return free, floor_div(free, phase.per_sum) + 1


def may_hold_all(phase: AllKeys, keys: Counts, fast_words: Counts) -> Counts:
    """Whether all keys fit, and gradients of more than one."""
    return _most_keys(phase, keys, fast_words)[1] >= 2


def all_keys_floor(phase: AllKeys, shape: tuple[Counts, Counts], fast_words: Counts) -> Counts:
    """Words that no sizes go below: as many gradients as fit, and as many rows, both at once; infinite if none fits."""
    free, keys = _most_keys(phase, shape[1], fast_words)
    if type(keys) is int and keys < 2:
        return inf  # the usual case, quickly
    sizes = Sizes(larger(keys, 1), larger(floor_div(free, phase.per_row), 0))
    return where(keys < 2, inf, words_of_tiles(phase, shape, sizes))


def best_all_keys(phase: AllKeys, shape: tuple[Counts, Counts], fast_words: Counts) -> tuple[Counts, Sizes]:
    """The fewest words and the sizes that move them; 2^60 words, and no keys, where nothing fits."""
    free, keys_that_fit = _most_keys(phase, shape[1], fast_words)
    most = smaller(keys_that_fit, shape[1])

    def words_with(keys: Counts) -> tuple[Counts, Counts, Counts]:
        """Beside as many rows as fit."""
        first = smaller(larger(keys, 1), shape[1])
        tiles = tuple(_tiles(phase, shape[1], first))
        most_rows = floor_div(fast_words - _held_by_tiles(phase, shape[1], tiles), phase.per_row)
        rows = larger(smaller(most_rows, phase.group * shape[0]), 0)
        fits = (keys >= 1) & (keys <= most) & (most_rows >= 0)
        return where(fits, _words_beside(phase, shape[0], rows, tiles), NEVER), first, rows

    words, *sizes = best_of_tried(_tried(phase, shape, free, most), words_with)
    return words, Sizes(*sizes)


def _tried(phase: AllKeys, shape: tuple[Counts, Counts], free: Counts, most: Counts) -> Iterator[Counts]:
    """Keys whose gradients may come first: words are linear in them between bends, beside as many rows as fit.

    If w words of sums are of a word of keys, j tiles before the end (m + bw)(w/(w+1))^j - bw keys have left. Where so
    many positions have as many rows as stay words bend up; and where a position has rows enough, at most as many
    gradients as fit are best.
    """
    yield from (most - fewer for fewer in range(_ROUNDS))
    positions, keys = shape
    w, stays = phase.per_sum // phase.per_key, phase.per_sum / phase.per_row
    if np.all((positions >= keys) & (phase.group * w > (w + 1) * stays)):
        return
    yield from (0 * most + number for number in range(1, FEW + 1))
    for turn in range(1, _BENDS + 1):
        share = (w / (w + 1)) ** turn
        slope = phase.group * w * (1 - share) - stays
        bend = floor_div(phase.group * keys * share - free / phase.per_row, where(slope == 0, 1, slope))
        about = np.asarray(clip(bend, most)).astype(np.int64)
        yield from (about + more for more in (-1, 0, 1, 2))
