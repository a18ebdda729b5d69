"""The best tile of rows beside slots that keep keys: what a larger tile saves, the keys kept no longer may cost again.

With room for s(a) keys beside a rows, a tile reads what it needs but for the keys that its slots have kept, so that a
band reads

    touched + sum over boundaries x = a, 2a, ... of max(0, alive(x) - s(a))

keys (see ``Band``). Dense, that is m p - s(a)(p - 1) for p tiles, and with a real s(n/p) it is concave in p and grows
with p unless all keys fit: few numbers of tiles have to be tried. In other bands, for all tiles from a to b,

    alive(i*x) - s(x) >= min(up + a*i, peak, down - b*i) - s(a),

which added up is a floor under the words of a range. Ranges are cut until their floors rule them out.
"""

from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from attenio.masks.patterns import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, larger, smaller, sum_clipped, where
from attenio.planning.problems import Problems
from attenio.planning.search.room import Room, key_room

Ints = NDArray[np.int64]
# Ranges are cut into so many parts.
_PARTS = 4


class KeptWords(NamedTuple):
    """Words as a function of the tile: ``live`` a row of a live tile, ``loads`` a key read; slots take the rest."""

    problems: Problems
    live: int
    loads: int
    room: Room

    def slots(self, tile: Counts) -> Counts:
        """Slots beside a tile."""
        return key_room(self.problems, (self.room,), tile)

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
        again = self._again(tile, tile, self.slots(tile))
        return self.live * self.band.live_rows(tile) + self.loads * (self.band.touched_keys + again)

    def floor(self, least: Counts, most: Counts) -> Counts:
        """Words that no tile of a range goes below."""
        return self.compulsory + self.loads * larger(self._again(least, most, self.slots(least)), 0)

    def _again(self, least: Counts, most: Counts, slots: Counts) -> Counts:
        """Keys read again with so many slots: by one tile, or at least by any from ``least`` to ``most``."""
        band, boundaries = self.band, ceil_div(self.band.rows, most) - 1
        peak = smaller(band.keys, band.left + band.right)
        beyond = peak - smaller(where(slots > 1, slots, 0), peak)
        rising = sum_clipped(1, boundaries, least, band.shift + band.right - peak + beyond, beyond)
        return rising - sum_clipped(1, boundaries, most, band.shift - band.left - band.keys + peak, beyond)

    def least_tile(self, words: Counts) -> Counts:
        """No tile below this one moves as few words: see ``least_read``, with the slots beside the tile."""
        band = self.band
        read = (words - self.live * band.touched_rows) // self.loads
        beyond = band.scores * self.per_slot - band.rows * self.words
        spare = read * self.per_slot - band.rows * self.per_row
        return where(beyond > 0, where(spare > 0, ceil_div(beyond, larger(spare, 1)), band.rows + 1), 1)

    @property
    def compulsory(self) -> Counts:
        """Words of live rows and of keys read once."""
        return self.live * self.band.touched_rows + self.loads * self.band.touched_keys

    def nothing_twice(self) -> Counts:
        """The largest tile beside which all keys alive at any boundary fit; less than one if there is none."""
        peak = self.band.most_alive[0]
        slots = smaller(larger(peak, smaller(2 * peak, 2)), self.band.keys)
        return (self.words - larger(slots, 1) * self.per_slot) // self.per_row


class Counted(Protocol):
    """What a floor asks of problems, or of cases."""

    @property
    def rows(self) -> Counts:
        """Query rows."""

    @property
    def scores(self) -> Counts:
        """Required scores."""

    @property
    def touched_keys(self) -> Counts:
        """Keys that a row needs."""


def least_read(counted: Counted, room: Room, most: Counts) -> Counts:
    """Keys that are read at least: one serves the a rows of a tile, and s slots serve every row once.

    So Z <= a*read + n*s with a*per_row + s*per_key within the room, where a large tile reads least unless slots do all.
    """
    beyond = counted.scores * room.per_key - counted.rows * room.words
    read = (beyond // most + counted.rows * room.per_row) // room.per_key
    return larger(counted.touched_keys, where(beyond > 0, read, 0))


def best_kept_tile(form: KeptWords, most: int, limit: int | None = None) -> tuple[int, int]:
    """The fewest words over all tiles up to ``most``, and a tile that has them; if all exceed ``limit``, any tile."""
    band, room = form.problems.only_band, form.room
    if band is None:
        return _best_of_all(form, most)
    kept = Kept(band, form.live, form.loads, room.words, room.per_row, room.per_key)
    return best_dense(kept, most) if band.is_dense else _best_masked(kept, most, limit)


def best_dense(kept: Kept, most: int) -> tuple[int, int]:
    """The same for one dense band: the fewest tiles that move the least."""
    rows, keys = int(kept.band.rows), int(kept.band.keys)
    count = -(-rows // most)
    best = (keys * count - min(int(kept.slots(-(-rows // count))), keys) * (count - 1), -(-rows // count))
    every = int(kept.nothing_twice())
    if best[0] > keys and every >= 1:
        count = -(-rows // every)
        best = (keys, -(-rows // count))
    slots = int(kept.slots(1))
    while best[0] > keys and count < rows:
        count += 1
        tile = -(-rows // count)
        # what slots for one row more or less would save, and with the slots beside a single row
        spare = (kept.words * count - kept.per_row * rows) / (kept.per_slot * count)
        least = max(keys * count - (count - 1) * min(keys, spare), keys + (count - 1) * (keys - min(slots, keys)))
        if least * (1 - 1e-12) >= best[0]:
            break
        read = keys * count - min(int(kept.slots(tile)), keys) * (count - 1)
        best = (read, tile) if read < best[0] else best
    return int(kept.live * rows + kept.loads * best[0]), best[1]


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
    known = best[0] if limit is None else min(best[0], limit)
    ranges = [(max(1, kept.least_tile(known)), most)] if best[0] > kept.compulsory else []
    while ranges:
        parts = []
        for first, last in ranges:
            length = last - first + 1
            edges = [first + length * part // _PARTS for part in range(_PARTS + 1)]
            parts += [(low, high - 1) for low, high in pairwise(edges) if low < high]
        found = min(((int(kept.moved(low)), low) for low, _ in parts), default=best)
        best = found if found[0] < best[0] else best
        most_words = best[0] - 1 if limit is None else min(best[0] - 1, limit)
        ranges = [(low + 1, high) for low, high in parts if low < high and kept.floor(low + 1, high) <= most_words]
    return best


def best_masked(kept: Kept, most: Ints, limit: Ints) -> tuple[Ints, Ints]:
    """The same for arrays of bands."""
    band = kept.band
    every = np.minimum(kept.nothing_twice(), most)
    tiles = np.where(every >= 1, np.maximum(every, 1), most)
    tiles = np.where((every >= 1) & (band.live_rows(tiles) > band.touched_rows), 1, tiles)
    words, ends = np.asarray(kept.moved(tiles)), np.asarray(kept.moved(most))
    better = (ends < words) | ((ends == words) & (most < tiles))
    words, tiles = np.where(better, ends, words), np.where(better, most, tiles)
    least = np.maximum(kept.least_tile(np.minimum(words, limit)), 1)
    owner = np.flatnonzero((words > kept.compulsory) & (least <= most))
    first, last = least[owner], most[owner]
    while owner.size:
        place, part = np.repeat(np.arange(len(owner)), _PARTS), np.tile(np.arange(_PARTS), len(owner))
        length = (last - first + 1)[place]
        low, high = (first[place] + length * number // _PARTS for number in (part, part + 1))
        full = np.flatnonzero(low < high)
        owner, first, last = owner[place[full]], low[full], high[full] - 1
        some = taken(kept, owner)
        _take_better(words, tiles, (owner, np.asarray(some.moved(first)), first))
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


def _take_better(words: Ints, tiles: Ints, offered: tuple[Ints, Ints, Ints]) -> None:
    """Take the least words of every owner, and the smallest tile among equals."""
    owner, found, tile = offered
    order = np.lexsort((tile, found, owner))
    front = order[np.flatnonzero(np.diff(owner[order], prepend=-1))]
    better = front[found[front] < words[owner[front]]]
    words[owner[better]], tiles[owner[better]] = found[better], tile[better]


def _best_of_all(form: KeptWords, most: int) -> tuple[int, int]:
    """Of several bands, or of blocks: every tile by its floor, until that is as many words as are known."""
    problems, best = form.problems, None
    for stop in range(most, 0, -problems.arrays_at_once):
        tiles = np.arange(max(1, stop - problems.arrays_at_once + 1), stop + 1)
        once = form.live * problems.live_rows(tiles) + form.loads * problems.key_loads(tiles)
        turns = sum(times * (ceil_div(pattern.rows, tiles) - 1) for pattern, times in problems.patterns)
        compulsory = form.live * problems.touched_rows + form.loads * problems.touched_keys
        floors = np.maximum(once - form.loads * turns * form.slots(tiles), compulsory)
        for place in np.argsort(floors, kind="stable").tolist():
            if best is not None and floors[place] >= best[0]:
                break
            tile = int(tiles[place])
            found = int(form.words(tile)), tile
            best = found if best is None else min(best, found)
    assert best is not None
    return best
