"""The best tile of rows beside slots that keep keys: what a larger tile saves, the keys kept no longer may cost again.

Where the keys alive do not become fewer from the first row to the last (dense, causal, causal windows), the smallest of
the tiles that make p of them is the best: few numbers p have to be tried, as floors (see ``kept_band``) grow with p and
end the search. In other bands ranges of tiles are cut until floors rule them out.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns.pattern import Counts
from attenio.planning.problems import Problems
from attenio.planning.search.kept_band import ROUNDED, Kept, rises, worth_trying
from attenio.planning.search.room import Room, key_room

Ints = NDArray[np.int64]
Ranges = list[tuple[int, int]]
# Ranges are cut into so many parts.
PARTS = 4
# Up to this many numbers of tiles, one by one in Python integers is faster than in arrays.
_FEW = 20
# Where more tiles than these may do, those of the fewest rows are tried first.
LEAST_TILES = 40
# So many tiles of the least floors are counted together at first.
_AT_FIRST = 64


class KeptWords(NamedTuple):
    """Words as a function of the tile: ``live`` a row of a live tile, ``loads`` a key read; slots take the rest."""

    problems: Problems
    live: int
    loads: int
    room: Room

    def slots(self, tile: Counts) -> Counts:
        """Slots beside a tile."""
        return key_room(self.problems, (self.room,), tile)

    @property
    def of_band(self) -> "Kept | None":
        """The same for the band, if that is what the problem is."""
        band, room = self.problems.counts.only_band, self.room
        return None if band is None else Kept(band, self.live, self.loads, room.words, room.per_row, room.per_key)

    def floor(self, most: int) -> float:
        """A number that no tile up to this size goes below."""
        problems, kept = self.problems, self.of_band
        once = self.live * problems.counts.touched_rows + self.loads * problems.counts.touched_keys
        if kept is None or problems.counts.touched_rows < problems.counts.rows:
            return once
        return float(once + self.loads * kept.least_again(most))

    def some_words(self, most: int) -> int:
        """The words of a good tile, quickly."""
        rows, kept = self.problems.counts.most_rows, self.of_band
        even = -(-rows // -(-rows // most))
        if kept is not None and rises(kept.band):
            again = kept.read_again(even)
            if again and kept.may_keep_all() and kept.nothing_twice() >= 1:
                again = 0
            return int(kept.compulsory + self.loads * again)
        return int(self.words(even))

    def words(self, tile: Counts) -> Counts:
        """The words of tiles, each with as many slots as fit."""
        read = self.problems.counts.key_loads(tile) - self.problems.counts.kept_loads(tile, self.slots(tile))
        return self.live * self.problems.counts.live_rows(tile) + self.loads * read

    def words_within(self, tiles: Ints, unkept: Ints, best: int | None) -> Ints:
        """The words of tiles that have ``unkept`` without slots, or fewer where these too are more than the ``best``.

        That is the best known, and whatever some tile has.
        """
        blocks, slots = self.problems.counts.only_blocks, self.slots(tiles)
        most = None if blocks is None else blocks.most_kept(tiles, slots)
        if most is None:
            return np.asarray(unkept - self.loads * self.problems.counts.kept_loads(tiles, slots))
        words = np.asarray(unkept - self.loads * most)
        least = int(self.words(int(tiles[np.argmin(words)])))
        good = words <= (least if best is None else min(best, least))
        words[good] = self.words(tiles[good])
        return words


def best_kept_tile(form: KeptWords, most: int, limit: int | None = None) -> tuple[int, int]:
    """The fewest words over all tiles up to ``most``, and a tile that has them; if all exceed ``limit``, any tile."""
    kept = form.of_band
    if kept is None:
        return _best_of_all(form, most)
    return best_rising(kept, most, limit) if rises(kept.band) else _best_masked(kept, most, limit)


def best_rising(kept: Kept, most: int, limit: int | None) -> tuple[int, int]:
    """The same for a band whose alive keys rise: the fewest tiles that move the least."""
    rows, count = kept.band.rows, -(-kept.band.rows // most)
    tile = -(-rows // count)
    again = kept.read_again(tile)
    known = again if limit is None else min(again, (limit - kept.compulsory) // kept.loads + 1)
    more = kept.rough_read(rows / (count + 1)) * ROUNDED < kept.band.touched_keys + known
    if again and more and (every := kept.nothing_twice()) >= 1:
        again, tile = 0, -(-rows // -(-rows // every))
    if again and more and count < rows:
        lines, best = kept.floor_lines(rows / count), (again, tile)
        last, _ = worth_trying(lines, (rows, count), known - 1)
        if last > count:  # one more tile first, which rules out most of the others
            count += 1
            best = _better(kept, -(-rows // count), best)
            last, high = worth_trying(lines, (rows, count), min(best[0], known) - 1)
            if last > count + LEAST_TILES and high > LEAST_TILES:
                best = _best_of_many(kept, np.arange(LEAST_TILES, 0, -1, dtype=np.int64), best)
                last, high = worth_trying(lines, (rows, count), min(best[0], known) - 1)
            least = -(-rows // last) if last > count else high + 1
            if min(last - count, high + 1 - least) > _FEW:
                best = _best_of_many(kept, _tiles(rows, (count, last), (least, high)), best)
            elif high >= least:
                for tile in dict.fromkeys(_tiles(rows, (count, last), (least, high)).tolist()):
                    best = _better(kept, tile, best)
        again, tile = best
    return kept.compulsory + kept.loads * again, tile


def _tiles(rows: int, counts: tuple[int, int], limits: tuple[int, int]) -> Ints:
    """Tiles of so many counts, or all within the limits if these are fewer; descending."""
    (first, last), (least, high) = counts, limits
    if last - first <= high + 1 - least:
        return np.asarray(-(-rows // np.arange(first + 1, last + 1, dtype=np.int64)))
    return np.arange(high, least - 1, -1, dtype=np.int64)


def _better(kept: Kept, tile: int, best: tuple[int, int]) -> tuple[int, int]:
    again = kept.read_again(tile)
    return (again, tile) if again < best[0] else best


def _best_of_many(kept: Kept, tiles: Ints, best: tuple[int, int]) -> tuple[int, int]:
    """Keys read again, and the tile: the better of those known and of these tiles."""
    if not tiles.size:
        return best
    rows, again = kept.band.rows, np.asarray(kept.read_again(tiles))
    place = int(np.argmin(again))
    if again[place] >= best[0]:
        return best
    return int(again[place]), -(-rows // -(-rows // int(tiles[place])))


def _best_masked(kept: Kept, most: int, limit: int | None) -> tuple[int, int]:
    """The same for any other band, in Python integers: parts are tried by their first tile, and ruled out by floors."""
    band = kept.band
    every = min(int(kept.nothing_twice()), most)
    tile = every if every >= 1 else most
    if every >= 1 and band.live_rows(tile) > band.touched_rows:
        tile = 1
    best = (int(kept.moved(tile)), tile)
    if tile != most:
        best = min(best, (int(kept.moved(most)), most))
    # parts do not depend on the limit, so that of equals the same is found with any; which ones are tried does
    ranges = [(max(1, kept.least_tile(best[0])), most)] if best[0] > kept.compulsory else []
    least = kept.least_tile(limit) if ranges and limit is not None and limit < best[0] else 1
    while 0 < len(ranges) <= _FEW // PARTS:
        parts = []
        for first, last in ranges:
            length = last - first + 1
            edges = [first + length * part // PARTS for part in range(PARTS + 1)]
            parts += [(low, high - 1) for low, high in pairwise(edges) if low < high and high > least]
        best, ranges = _next_ranges(kept, parts, best, limit)
    return _best_in_ranges(kept, np.array(ranges, dtype=np.int64), best, (limit, least)) if ranges else best


def _next_ranges(kept: Kept, parts: Ranges, best: tuple[int, int], limit: int | None) -> tuple[tuple[int, int], Ranges]:
    """The best tile when the first of each part is tried, and what is left of those that floors do not rule out."""
    lowest = min(((int(kept.moved(low)), low) for low, _ in parts), default=best)
    best = lowest if lowest[0] < best[0] else best
    words = best[0] - 1 if limit is None else min(best[0] - 1, limit)
    return best, [(low + 1, high) for low, high in parts if low < high and kept.floor(low + 1, high) <= words]


def _best_in_ranges(kept: Kept, ranges: Ints, best: tuple[int, int], limits: tuple[int | None, int]) -> tuple[int, int]:
    """The same to the end in arrays, with the words and the least tile that count."""
    limit, least = limits
    cuts = np.arange(PARTS + 1, dtype=np.int64)
    while len(ranges):
        first, last = ranges.T[..., None]
        edges = first + (last - first + 1) * cuts // PARTS
        low, stop = edges[:, :-1].ravel(), edges[:, 1:].ravel()
        low, high = (each[(low < stop) & (stop > least)] for each in (low, stop - 1))
        if not len(low):
            break
        moved = np.asarray(kept.moved(low))
        place = int(np.argmin(moved))
        best = (int(moved[place]), int(low[place])) if moved[place] < best[0] else best
        words = best[0] - 1 if limit is None else min(best[0] - 1, limit)
        low, high = low[low < high] + 1, high[low < high]
        left = np.asarray(kept.floor(low, high)) <= words
        ranges = np.stack((low[left], high[left]), 1)
    return best


def _best_of_all(form: KeptWords, most: int) -> tuple[int, int]:
    """Of several bands, or of blocks: every tile by its floor, until that is as many words as are known."""
    counts, best, at_once = form.problems.counts, None, form.problems.floors.arrays_at_once
    compulsory = form.live * counts.touched_rows + form.loads * counts.touched_keys
    for stop in range(most, 0, -at_once):
        tiles = np.arange(max(1, stop - at_once + 1), stop + 1, dtype=np.int64)
        unkept = np.asarray(form.live * counts.live_rows(tiles) + form.loads * counts.key_loads(tiles))
        kept = form.loads * counts.boundaries(tiles) * form.slots(tiles)
        floors = np.maximum(unkept - kept, compulsory)
        order, tried, step = np.argsort(floors, kind="stable"), 0, _AT_FIRST
        while tried < len(order) and (best is None or floors[order[tried]] < best[0]):
            some = order[tried : tried + step]
            words = form.words_within(tiles[some], unkept[some], None if best is None else best[0])
            best = _best_by_floor(words, tiles[some], floors[some], best)
            tried, step = tried + step, 16 * step
    assert best is not None
    return best


def _best_by_floor(words: Ints, tiles: Ints, floors: Ints, best: tuple[int, int] | None) -> tuple[int, int]:
    """The best of these tiles, whose floors rise, and of the one known: until a floor is as many words as are known."""
    fewest = np.minimum.accumulate(words if best is None else np.minimum(words, best[0]))
    beyond = np.flatnonzero(floors[1:] >= fewest[:-1])
    words, tiles = (words, tiles) if not len(beyond) else (words[: beyond[0] + 1], tiles[: beyond[0] + 1])
    here = int(words.min()), int(tiles[words == words.min()].min())
    return here if best is None else min(best, here)
