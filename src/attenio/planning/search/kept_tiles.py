"""The best tile of rows beside slots that keep keys: what a larger tile saves, the keys kept no longer may cost again.

With room for s(a) keys beside a rows, a tile reads what it needs but for the keys that its slots have kept, so that a
band reads

    touched + sum over boundaries x = a, 2a, ... of max(0, alive(x) - s(a))

keys (see ``Band``). Where alive does not fall from the first row to the last (dense, causal, causal windows), the
smallest of the tiles that make p of them is the best: few numbers p have to be tried. Samples at a distance D
of a function that rises, stays and falls with slopes of one sum up to at least

    (integral)/D - (both ends)/2 - D/8 for each end of the middle,

and for a real s(D) = S - rho*D that is A/D + B + C*D or more, A and -C not negative, which grows with p and ends the
search. In other bands ranges of tiles are cut until floors rule them out. For all tiles from a to b,

    alive(i*x) - s(x) >= min(up + a*i, peak, down - b*i) - s(a).
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, larger, smaller, sum_clipped, where
from attenio.planning.problems import Problems
from attenio.planning.search.room import Room, key_room
from attenio.planning.words.form import KeptTile

Ints = NDArray[np.int64]
Line = tuple[Counts, Counts, Counts]
Lines = tuple[Line, Line]
# Ranges are cut into so many parts.
PARTS = 4
# Up to this many numbers of tiles, one by one in Python integers is faster than in arrays.
_FEW = 20
# Where more tiles than these may do, those of the fewest rows are tried first.
LEAST_TILES = 40
# So many tiles of the least floors are counted together at first.
_AT_FIRST = 64
# Floors in floating point are off by less than this factor.
_ROUNDED = 1 - 1e-9


def _positive(value: Counts) -> Counts:
    """The value where it is above zero."""
    return np.maximum(value, 0) if type(value) is np.ndarray else max(value, 0 * value)


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
        band, room = self.problems.only_band, self.room
        return None if band is None else Kept(band, self.live, self.loads, room.words, room.per_row, room.per_key)

    def floor(self, most: int) -> float:
        """A number that no tile up to this size goes below."""
        problems, kept = self.problems, self.of_band
        once = self.live * problems.touched_rows + self.loads * problems.touched_keys
        if kept is None or problems.touched_rows < problems.rows:
            return once
        return float(once + self.loads * kept.least_again(most))

    def some_words(self, most: int) -> int:
        """The words of a good tile, quickly."""
        rows, kept = self.problems.most_rows, self.of_band
        even = -(-rows // -(-rows // most))
        if kept is not None and rises(kept.band):
            return int(kept.compulsory + self.loads * kept.read_again(even))
        return int(self.words(even))

    def words(self, tile: Counts) -> Counts:
        """The words of tiles, each with as many slots as fit."""
        read = self.problems.key_loads(tile) - self.problems.kept_loads(tile, self.slots(tile))
        return self.live * self.problems.live_rows(tile) + self.loads * read


class Kept(NamedTuple):
    """A band, or arrays of bands, with the words of a live row and of a key read, and the room for rows and slots."""

    band: Band
    live: Counts
    loads: Counts
    words: Counts
    per_row: Counts
    per_slot: Counts

    def slots(self, tile: Counts) -> Counts:
        """Slots beside a tile: no more than there are keys."""
        return smaller((self.words - tile * self.per_row) // self.per_slot, self.band.keys)

    def moved(self, tile: Counts) -> Counts:
        """The words of a tile; of a band that is not dense."""
        read = self.loads * (self.band.touched_keys + self._again(tile, tile, self.slots(tile)))
        return read if type(self.live) is int and not self.live else read + self.live * self.band.live_rows(tile)

    def floor(self, least: Counts, most: Counts) -> Counts:
        """Words that no tile of a range goes below."""
        return self.compulsory + self.loads * larger(self._again(least, most, self.slots(least)), 0)

    def _again(self, least: Counts, most: Counts, slots: Counts) -> Counts:
        """Keys read again with so many slots: by one tile, or at least by any from ``least`` to ``most``."""
        band, peak = self.band, smaller(self.band.keys, self.band.left + self.band.right)
        if type(slots) is int and 1 < slots >= peak:
            return 0
        boundaries, beyond = ceil_div(band.rows, most) - 1, peak - smaller(where(slots > 1, slots, 0), peak)
        first = band.shift + band.right - peak
        level = type(slots) is not int and (first + least >= 0).all()  # as under causal masks and their windows
        rising = boundaries * beyond if level else sum_clipped(1, boundaries, least, first + beyond, beyond)
        return rising - sum_clipped(1, boundaries, most, band.shift - band.left - band.keys + peak, beyond)

    def read_again(self, tile: Counts) -> Counts:
        """Keys that a tile reads again, if they rise."""
        band, slots = self.band, self.slots(tile)
        peak = smaller(band.keys, band.left + band.right)
        first = smaller(band.shift + band.right, peak)
        if type(slots) is int:
            over = peak - min(slots if slots > 1 or band.is_dense else 0, peak)
            boundaries = -(-band.rows // tile) - 1
            if not over or first == peak:
                return boundaries * over
            # the first boundary over which not all keys are kept, and the first at the peak
            begin, level = (max(1, (peak - over - first) // tile + 1), -((first - peak) // tile))
            rising = min(boundaries, level - 1)
            few = max(rising - begin + 1, 0)
            some = tile * ((begin + rising) * few // 2) + (first - peak + over) * few
            return some + over * max(boundaries - max(level, begin) + 1, 0)
        keeping = smaller(where((slots > 1) | band.is_dense, slots, 0), peak)
        return sum_clipped(1, ceil_div(band.rows, tile) - 1, tile, first - keeping, peak - keeping)

    def floor_lines(self, most: Counts) -> Lines:
        """Triples A, B, C: tiles of D <= ``most`` rows read A/D + B + C*D keys or more again. C is not positive.

        With slots as there would be without rounding, and with those beside a single row. Of bands without idle rows.
        """
        band, lines = self.band, list[Line]()
        peak, end = band.most_alive
        for slots, per_row in ((self.words / self.per_slot, self.per_row / self.per_slot), (self.slots(1) * 1.0, 0.0)):
            over = peak - slots
            a, b, c = over * band.rows, per_row * band.rows, 0.0
            for alive in (band.alive_first, end):
                rise, beyond = peak - alive, alive - slots
                always = (beyond > 0) | (rise == 0)  # keys are read again at this end, whatever the tile
                above, below = beyond * always, _positive(beyond + per_row * most) * (1 - always)
                a = a + over * over / 2 - over * rise - above * above / 2
                b = b + per_row * (over - rise) - above * (per_row + 0.5) - below * below / (2.0 * most) - below / 2
                bends = (rise > 0) & (rise < band.rows)
                c = c + per_row * per_row / 2 - always * per_row * (per_row + 1) / 2 - bends / 8
            some = over + per_row > 0
            lines.append((a * some, b * some, -_positive(-c) * some))
        return lines[0], lines[1]

    def least_again(self, most: Counts) -> Counts:
        """Keys that tiles of up to ``most`` rows read again at least; of bands without idle rows."""
        again = [(a / most + b + c * most) * (a >= 0) for a, b, c in self.floor_lines(most)]
        # a boundary lies within a tile of the one over which the most keys are alive
        slope = self.per_row / self.per_slot - 1
        one = self.band.most_alive[0] - self.words / self.per_slot - _positive(-slope) * most
        return _positive(larger(larger(*again), one * (most < self.band.rows))) * _ROUNDED

    def rough_read(self, most: Counts) -> Counts:
        """Keys that tiles of up to so many rows read at least, quickly, where slots do not do everything.

        A key read serves the a rows of a tile, and s slots serve every row once: Z <= a*read + n*s.
        """
        beyond = self.band.scores * self.per_slot - self.band.rows * self.words
        return (beyond / most + self.band.rows * self.per_row) / self.per_slot * (beyond > 0)

    def least_tile(self, words: Counts) -> Counts:
        """No tile below this one moves as few words: as ``rough_read``."""
        band = self.band
        read = (words - self.live * band.touched_rows) // self.loads
        beyond = band.scores * self.per_slot - band.rows * self.words
        spare = read * self.per_slot - band.rows * self.per_row
        least = where(beyond > 0, where(spare > 0, ceil_div(beyond, larger(spare, 1)), band.rows + 1), 1)
        # a boundary lies within a tile of the one over which the most keys are alive
        over = (band.most_alive[0] + band.touched_keys - read) * self.per_slot - self.words
        saved = self.per_slot - self.per_row
        near = where(saved > 0, ceil_div(larger(over, 0), larger(saved, 1)), where(over > 0, band.rows, 1))
        return larger(least, where(band.touched_rows == band.rows, smaller(near, band.rows), 1))

    @property
    def compulsory(self) -> Counts:
        """Words of live rows and of keys read once."""
        return self.live * self.band.touched_rows + self.loads * self.band.touched_keys

    def nothing_twice(self) -> Counts:
        """The largest tile beside which all keys alive at any boundary fit; less than one if there is none."""
        peak = self.band.most_alive_inside
        slots = smaller(larger(peak, smaller(2 * peak, 2)), self.band.keys)
        return (self.words - larger(slots, 1) * self.per_slot) // self.per_row


def rises(band: Band) -> Counts:
    """Whether all rows need a key, and the keys alive never become fewer from one boundary to the next."""
    last = band.shift + band.rows - 1
    return (band.touched_rows == band.rows) & ((last + band.right <= band.keys) | (last <= band.left))


def keeps_more(band: Band, phase: KeptTile, most: Counts, fast_words: Counts) -> Counts:
    """Whether slots keep a key over every boundary, with any tile up to ``most`` rows and never all of them."""
    two = phase.beside + most * phase.per_row + 2 * phase.per_slot <= fast_words
    return two & (most >= 1) & (most < band.rows) & (band.left + band.right > 0) & rises(band)


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
    more = kept.rough_read(rows / (count + 1)) * _ROUNDED < kept.band.touched_keys + known
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


def worth_trying(lines: Lines, rows_and_count: tuple[Counts, Counts], again: Counts) -> tuple[Counts, Counts]:
    """Up to how many tiles, more than there are, may read so few keys again, and up to how many rows."""
    rows, count = rows_and_count
    last, high = rows, ceil_div(rows, count) - 1
    for a, b, c in lines:
        room = again + 1e-9 * (again + 1) - b - c * rows / count
        if type(rows) is not int:
            last = np.where(a > 0, np.minimum(rows * room / np.where(a > 0, a, 1.0), last), last)
            low = (a < 0) & (room < 0)
            high = np.where(low, np.minimum(a / np.where(low, room, -1.0), high), high)
        elif a > 0:
            last = min(last, int(rows * room / a))
        elif a < 0 and room < 0:
            high = min(high, int(a / room))
    return (last, high) if type(rows) is int else (np.asarray(last).astype(np.int64), np.asarray(high).astype(np.int64))


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
    while ranges:
        parts = []
        for first, last in ranges:
            length = last - first + 1
            edges = [first + length * part // PARTS for part in range(PARTS + 1)]
            parts += [(low, high - 1) for low, high in pairwise(edges) if low < high and high > least]
        found = min(((int(kept.moved(low)), low) for low, _ in parts), default=best)
        best = found if found[0] < best[0] else best
        most_words = best[0] - 1 if limit is None else min(best[0] - 1, limit)
        ranges = [(low + 1, high) for low, high in parts if low < high and kept.floor(low + 1, high) <= most_words]
    return best


def _best_of_all(form: KeptWords, most: int) -> tuple[int, int]:
    """Of several bands, or of blocks: every tile by its floor, until that is as many words as are known."""
    problems, best = form.problems, None
    for stop in range(most, 0, -problems.arrays_at_once):
        tiles = np.arange(max(1, stop - problems.arrays_at_once + 1), stop + 1, dtype=np.int64)
        once = form.live * problems.live_rows(tiles) + form.loads * problems.key_loads(tiles)
        turns = sum(times * (ceil_div(pattern.rows, tiles) - 1) for pattern, times in problems.patterns)
        compulsory = form.live * problems.touched_rows + form.loads * problems.touched_keys
        floors = np.maximum(once - form.loads * turns * form.slots(tiles), compulsory)
        order, tried, step = np.argsort(floors, kind="stable"), 0, _AT_FIRST
        while tried < len(order) and (best is None or floors[order[tried]] < best[0]):
            some = order[tried : tried + step]
            best = _best_by_floor(form, tiles[some], floors[some], best)
            tried, step = tried + step, 16 * step
    assert best is not None
    return best


def _best_by_floor(form: KeptWords, tiles: Ints, floors: Ints, best: tuple[int, int] | None) -> tuple[int, int]:
    """The best of these tiles, whose floors rise, and of the one known: until a floor is as many words as are known."""
    words = form.words(tiles)
    fewest = np.minimum.accumulate(words if best is None else np.minimum(words, best[0]))
    beyond = np.flatnonzero(floors[1:] >= fewest[:-1])
    words, tiles = (words, tiles) if not len(beyond) else (words[: beyond[0] + 1], tiles[: beyond[0] + 1])
    found = int(words.min()), int(tiles[words == words.min()].min())
    return found if best is None else min(best, found)
