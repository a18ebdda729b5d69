"""The search of ``search.kept_tiles`` for many cases at once, by the same floors."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns import Band
from attenio.masks.patterns.sums import ceil_div
from attenio.planning.search.kept_band import ROUNDED, Kept, rises, worth_trying
from attenio.planning.search.kept_tiles import LEAST_TILES, PARTS
from attenio.planning.sweeping.cases import Cases, Ints, batches, spread, take
from attenio.planning.words.form import KeptTile

Floats = NDArray[np.float64]


def most_kept_rows(cases: Cases, phase: KeptTile) -> Ints:
    """Rows that fit beside one slot; less than one where none do."""
    return np.asarray(np.minimum((cases.fast_words - phase.beside - phase.per_slot) // phase.per_row, cases.rows))


def kept_of(cases: Cases, phase: KeptTile) -> Kept:
    """Bands, weights and rooms of the cases."""
    fields = (phase.loads, cases.fast_words - phase.beside, phase.per_row, phase.per_slot)
    live = phase.live if type(phase.live) is int else phase.live + 0 * cases.rows
    return Kept(cases.band, live, *(value + 0 * cases.rows for value in fields))


def least_words(cases: Cases, phase: KeptTile, most: Ints) -> Floats:
    """Words that no tiles up to ``most`` go below, of cases without idle rows."""
    kept = kept_of(cases, phase)
    return np.asarray(kept.compulsory + kept.loads * kept.least_again(most))


def best_kept_tiles(cases: Cases, phase: KeptTile, limit: Ints) -> tuple[Ints, Ints, Ints]:
    """Fewest words, the tile that has them, and slots beside it, in cases in which some fit; beyond ``limit``, any."""
    kept = kept_of(cases, phase)
    words, tiles = best_tiles_of(kept, most_kept_rows(cases, phase), limit)
    return words, tiles, np.asarray(kept.slots(tiles))


def best_tiles_of(kept: Kept, most: Ints, limit: Ints) -> tuple[Ints, Ints]:
    """Fewest words over all tiles up to ``most``, and a tile that has them; beyond ``limit``, any."""
    rising = np.asarray(rises(kept.band))
    if rising.all():
        return _best_rising(kept, most, limit)
    words, tiles = 0 * most, 0 * most
    others, rising = np.flatnonzero(~rising), np.flatnonzero(rising)
    words[others], tiles[others] = _best_masked(taken(kept, others), most[others], limit[others])
    if rising.size:
        words[rising], tiles[rising] = _best_rising(taken(kept, rising), most[rising], limit[rising])
    return words, tiles


def _best_rising(kept: Kept, most: Ints, limit: Ints) -> tuple[Ints, Ints]:
    rows = kept.band.rows
    count = ceil_div(rows, most)
    tiles = ceil_div(rows, count)
    again, every = np.asarray(kept.read_again(tiles)), kept.nothing_twice()
    at_once = np.flatnonzero((again > 0) & (every >= 1))
    again[at_once] = 0
    tiles[at_once] = ceil_div(rows[at_once], ceil_div(rows[at_once], every[at_once]))
    more = kept.rough_read(rows / (count + 1)) * ROUNDED < kept.band.touched_keys + again
    left = np.flatnonzero((again > 0) & (count < rows) & more)
    if left.size:
        again[left], tiles[left] = _best_of_more(
            taken(kept, left), count[left], limit[left], (again[left], tiles[left])
        )
    return np.asarray(kept.compulsory + kept.loads * again), tiles


def _best_of_more(kept: Kept, count: Ints, limit: Ints, best: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """The better of the best tiles known and of those that are more than ``count``: keys read again, and the tiles."""
    rows, known = kept.band.rows, (limit - kept.compulsory) // kept.loads + 1
    lines = kept.floor_lines(rows / count)
    last, _ = worth_trying(lines, (rows, count), np.minimum(best[0], known) - 1)
    left = np.flatnonzero(last > count)
    _take_better(kept, _Tried(left, ceil_div(rows[left], count[left] + 1), np.ones_like(left)), best)
    kept, rows, count, known = taken(kept, left), rows[left], count[left] + 1, known[left]
    lines, few = take(lines, left), (best[0][left], best[1][left])
    last, high = worth_trying(lines, (rows, count), np.minimum(few[0], known) - 1)
    one_row = np.flatnonzero((last > count + LEAST_TILES) & (high > LEAST_TILES))
    if one_row.size:
        counts = np.full(len(one_row), LEAST_TILES, dtype=np.int64)
        owner, number = spread(counts)
        _take_better(kept, _Tried(one_row[owner], counts[owner] - number, counts), few)
        last, high = worth_trying(lines, (rows, count), np.minimum(few[0], known) - 1)
    least = np.where(last > count, ceil_div(rows, np.maximum(last, 1)), high + 1)
    by_count = last - count <= high + 1 - least
    counts = np.maximum(np.where(by_count, last - count, high + 1 - least), 0)
    for batch in batches(counts, 2**20):
        owner, number = spread(counts[batch])
        owner = owner + batch.start
        tiles = np.where(by_count[owner], ceil_div(rows[owner], count[owner] + 1 + number), high[owner] - number)
        _take_better(kept, _Tried(owner, tiles, counts[batch][counts[batch] > 0]), few)
    best[0][left], best[1][left] = few
    return best


class _Tried(NamedTuple):
    """Tiles of cases, one after the other, ``counts`` of each."""

    owner: Ints
    tiles: Ints
    counts: Ints


def _take_better(kept: Kept, tried: _Tried, best: tuple[Ints, Ints]) -> None:
    """Replace keys read again and tiles of cases where a tile reads fewer: the first that reads the fewest."""
    owner, tiles, counts = tried
    if not owner.size:
        return
    reads = np.asarray(taken(kept, owner).read_again(tiles))
    starts = (np.cumsum(counts) - counts).astype(np.intp, copy=False)
    fewest = np.minimum.reduceat(reads, starts)
    largest = np.maximum.reduceat(np.where(reads == np.repeat(fewest, counts), tiles, 0), starts)
    cases = owner[starts]
    better = np.flatnonzero(fewest < best[0][cases])
    chosen, rows = cases[better], kept.band.rows[cases[better]]
    best[0][chosen], best[1][chosen] = fewest[better], ceil_div(rows, ceil_div(rows, largest[better]))


def _best_masked(kept: Kept, most: Ints, limit: Ints) -> tuple[Ints, Ints]:
    """As ``search.kept_tiles`` for bands that do not rise."""
    band = kept.band
    every = np.minimum(kept.nothing_twice(), most)
    tiles = np.where(every >= 1, np.maximum(every, 1), most)
    tiles = np.where((every >= 1) & (band.live_rows(tiles) > band.touched_rows), 1, tiles)
    words, ends = np.asarray(kept.moved(tiles)), np.asarray(kept.moved(most))
    better = (ends < words) | ((ends == words) & (most < tiles))
    words, tiles = np.where(better, ends, words), np.where(better, most, tiles)
    least = np.maximum(kept.least_tile(words), 1)
    within = np.where(limit < words, kept.least_tile(np.minimum(words, limit)), least)
    owner = np.flatnonzero((words > kept.compulsory) & (within <= most))
    first, last = least[owner], most[owner]
    while owner.size:
        place, part = (
            np.repeat(np.arange(len(owner), dtype=np.int64), PARTS),
            np.tile(np.arange(PARTS, dtype=np.int64), len(owner)),
        )
        length = (last - first + 1)[place]
        low, high = (first[place] + length * number // PARTS for number in (part, part + 1))
        full = np.flatnonzero((low < high) & (high > within[owner[place]]))
        owner, first, last = owner[place[full]], low[full], high[full] - 1
        some = taken(kept, owner)
        _take_least(words, tiles, (owner, np.asarray(some.moved(first)), first))
        longer = np.flatnonzero(first < last)
        owner, first, last = owner[longer], first[longer] + 1, last[longer]
        left = np.asarray(taken(kept, owner).floor(first, last)) <= np.minimum(words - 1, limit)[owner]
        owner, first, last = owner[left], first[left], last[left]
    return words, tiles


def taken(kept: Kept, index: Ints) -> Kept:
    """Some of the bands, with their weights and rooms."""
    fields = {name: getattr(kept.band, name)[index] for name in ("rows", "keys", "left", "right", "shift")}
    others = [value[index] if isinstance(value, np.ndarray) else value for value in kept[1:]]
    band, known = Band(**fields), kept.band
    first, end = known.live_range
    band.__dict__["live_range"] = first[index], end[index]  # not counted twice
    band.__dict__.update(touched_rows=known.touched_rows[index], touched_keys=known.touched_keys[index])
    return Kept(band, *others)


def _take_least(words: Ints, tiles: Ints, offered: tuple[Ints, Ints, Ints]) -> None:
    """Take the least words of every owner, and the smallest tile among equals; owners and their tiles ascend."""
    owner, moved, tile = offered
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    if not starts.size:
        return
    fewest, cases = np.minimum.reduceat(moved, starts), owner[starts]
    better = np.flatnonzero(fewest < words[cases])
    cases, fewest, starts = cases[better], fewest[better], starts[better]
    place = starts
    while (later := np.flatnonzero(moved[place] > fewest)).size:
        place[later] += 1
    words[cases], tiles[cases] = fewest, tile[place]
