"""The best number of rows that come and go one by one, and slots that keep keys beside them.

Where rows are causal each key is read once for every tile of the rows after it. There is one slot, and as many rows as
fit read the fewest keys. Under a window slots keep keys.

With a row's W keys over p of them, rounded up, a key is read p times at most, and slots spare it one of these. So no
number of reads keeps below Z/a less the keys, which grows with p and soon ends the search. Keys that a rows and s slots
read: of every a keys, slots keep s at most and spare a read that would have served up to a rows,

    a*read >= Z - n*s.

Sums that wait spare a read of themselves in the same way.
"""

from typing import NamedTuple

from attenio.masks.patterns import Band
from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.rolling import met_at_once, rolling_loads
from attenio.masks.patterns.sums import ceil_div, larger, smaller, where
from attenio.planning.words.rolling_sums import best_slots_and_places, keys_in_ring, slots_and_places


class Rolling(NamedTuple):
    """A band, or arrays of bands, with the words of a live row and of a key read, and the room for rows and slots.

    Where sums wait, there is room for each of those in slots too, and ``state`` is what they are when they move. A key
    with a single turn moves ``once`` words less.
    """

    band: Band
    live: Counts
    loads: Counts
    words: Counts
    per_row: Counts
    per_slot: Counts
    per_sum: Counts = 0
    state: Counts = 0
    once: Counts = 0
    waiting: bool = False
    ring: bool = False

    @property
    def needed(self) -> Counts:
        """Keys that a row needs, where no end of the sequence is near."""
        return smaller(self.band.left + self.band.right + 1, self.band.rows)

    @property
    def most(self) -> Counts:
        """Rows that fit beside one slot; less than one if none do."""
        return smaller((self.words - self.per_slot) // self.per_row, self.band.rows)

    @property
    def largest(self) -> Counts:
        """The most rows that are tried, of which some have to fit: under a window a whole number of reads decides."""
        window, most = self.band.is_window, larger(self.most, 1)
        if window is False:
            return most
        return where(window, ceil_div(self.needed, ceil_div(self.needed, most)), most)

    def slots(self, tile: Counts) -> Counts:
        """Slots beside so many rows, as far as they save anything; one without a window."""
        if self.waiting:
            return self._kept(tile)[0]
        some = smaller(smaller((self.words - tile * self.per_row) // self.per_slot, tile), self.band.keys)
        return where(self.band.is_window, some, 1)

    def places(self, tile: Counts) -> Counts:
        """Places for sums that wait, beside as many rows and slots."""
        return self._kept(tile)[1]

    def _kept(self, tile: Counts) -> tuple[Counts, Counts]:
        room = self.words - tile * self.per_row
        return best_slots_and_places(tile, room, self.per_slot, self.per_sum)

    def moved(self, tile: Counts) -> Counts:
        """The words of so many rows."""
        slots = self.slots(tile)
        if not self.waiting:
            return self._of(rolling_loads(self.band, tile, slots), self.loads) - self._spared(tile)
        places, ring = self.places(tile), 0
        if self.ring:
            ring = keys_in_ring((tile, slots, places), self.per_row, self.per_slot, self.per_sum)
        words = self._of(rolling_loads(self.band, tile, slots, ring), self.loads) - self._spared(tile)
        return words + self.state * rolling_loads(self.band, tile, slots_and_places(tile, slots, places))

    def floor(self, most: Counts) -> Counts:
        """Words that no tile up to ``most`` rows goes below."""
        return self._floor(most) - self._spared(most)

    def _floor(self, most: Counts) -> Counts:
        """The same, if all keys moved as many words at a turn."""
        band = self.band
        loads = self.loads + self.state if self.waiting else self.loads
        alone = where(most <= 1, band.rows, 0)  # one row finds the key in the slot
        if band.is_window is False:
            return self._of(larger(band.touched_keys, ceil_div(band.scores, most) - alone), loads)
        spared = where(band.is_window, band.touched_keys, alone)
        once = self._of(larger(band.touched_keys, ceil_div(band.scores, most) - spared), loads)
        if self.waiting:
            return once * 1.0
        beyond = band.scores * self.per_slot - band.rows * self.words
        read = (beyond / most + band.rows * self.per_row) / self.per_slot * (beyond > 0)
        return larger(once * 1.0, self._of(read, loads) * (1 - 1e-12))

    def _spared(self, tile: Counts) -> Counts:
        """Words that keys with a single turn spare, the more the larger the tile."""
        return self.once * met_at_once(self.band, tile)

    def _of(self, read: Counts, loads: Counts) -> Counts:
        return self.live * self.band.touched_rows + loads * read


def best_rolling_tile(rolling: Rolling) -> tuple[int, int]:
    """The fewest words, and the largest tile that has them; some rows have to fit."""
    needed, tile = rolling.needed, rolling.largest
    best = _at(rolling, tile)
    while tile > 1 and rolling.band.is_window:
        tile = ceil_div(needed, ceil_div(needed, tile - 1))  # the next smaller one
        if rolling.floor(tile) >= best[0]:
            break
        best = min(best, _at(rolling, tile), key=lambda each: each[0])
    return best


def _at(rolling: Rolling, tile: int) -> tuple[int, int]:
    return int(rolling.moved(tile)), int(tile)
