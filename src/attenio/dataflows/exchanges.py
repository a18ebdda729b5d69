"""Tiles of rows between which keys are kept: which rows and keys are whose, and what stays for the next.

>>> for tile in exchange_tiles(7, 7, Tiles.of(exchanged_rows=2, exchanges=1, last_rows=3, kept_keys=1)):
...     print(tile.rows, tile.kept, tile.own, tile.leaves)
range(0, 2) range(0, 0) range(0, 2) range(1, 2)
range(2, 4) range(1, 2) range(2, 4) range(4, 4)
range(4, 7) range(4, 4) range(4, 7) range(7, 7)
>>> for tile in turn_tiles(7, 5, Tiles.of(stacked_rows=3, exchanged_keys=2)):
...     print(tile.rows, tile.kept, tile.passing, tile.leaves)
range(0, 3) range(0, 0) range(0, 3) range(3, 5)
range(3, 6) range(3, 5) range(2, 3) range(0, 2)
range(6, 7) range(0, 2) range(2, 5) range(0, 0)
"""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple

from attenio.planning.plan import Tiles


class ExchangeTile(NamedTuple):
    """Rows of a tile; keys that were kept for it, that its rows need first, and that it leaves for the next tile."""

    rows: range
    kept: range
    own: range
    leaves: range

    def keys_of(self, row: int) -> Iterator[int]:
        """The keys that a row of it meets, in order."""
        yield from self.kept
        yield from range(self.kept.start)
        yield from range(self.own.start, self.own.start + row - self.rows.start + 1 + self._more)

    @property
    def _more(self) -> int:
        """Keys of the first tile that its first row needs, beside one."""
        return len(self.own) - len(self.rows)


def exchange_tiles(rows: int, keys: int, tiles: Tiles) -> list[ExchangeTile]:
    """The tiles of a causal problem of which row i needs i + 1 + keys - rows keys."""
    b, a, slots, more = tiles["exchanged_rows"], tiles["last_rows"], tiles["kept_keys"], keys - rows
    exchanges = min(tiles["exchanges"], (rows - 1) // b)
    later, left = divmod(rows - exchanges * b - 1, a)
    ends = list(accumulate([left + 1, *[b] * exchanges, *[a] * later]))
    found, kept = [], range(0)
    for number, (start, end) in enumerate(pairwise([0, *ends])):
        own = range(start + more if number else 0, end + more)
        stay = min(slots, len(own)) if number < exchanges else 0
        found.append(ExchangeTile(range(start, end), kept, own, range(own.stop - stay, own.stop)))
        # without any the next tile has all keys that came before pass
        kept = range(own.stop - stay, own.stop)
    return found


class TurnTile(NamedTuple):
    """Rows of a tile; keys that were kept for it, that pass, and that come last and stay for the next."""

    rows: range
    kept: range
    passing: range
    leaves: range


def turn_tiles(rows: int, keys: int, tiles: Tiles) -> list[TurnTile]:
    """The tiles of a dense problem: the last keys stay at one turn and the first ones at the next."""
    a, slots = min(tiles["stacked_rows"], rows), min(tiles["exchanged_keys"], keys // 2)
    found: list[TurnTile] = []
    kept = range(0)
    for start in range(0, rows, a):
        is_last = start + a >= rows
        at_end = not found or kept.start == 0
        leaves = range(0) if is_last or not slots else range(keys - slots, keys) if at_end else range(slots)
        others = [each for each in (kept, leaves) if each]
        first = max((each.stop for each in others if each.start == 0), default=0)
        stop = min((each.start for each in others if each.stop == keys and each.start), default=keys)
        found.append(TurnTile(range(start, min(start + a, rows)), kept, range(first, stop), leaves))
        kept = leaves
    return found
