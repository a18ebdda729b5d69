"""Rows that come and go one by one, and the keys that these meet: which ones when, and which stay.

So many rows are held that a row leaves when that many have come after it. A key takes its first turn just before the
first row that needs it leaves, and meets all that are there; its next turn is as many rows later. From its first turn
to its second a key may stay in a slot. Of every ``held`` keys that follow each other as many stay as there are slots
for them, the first ones: each takes the slot that the key ``held`` before it leaves. The others pass through the last
slot; where all stay, through the one that has just been left.

Keys with the same first row take their first turns at one time, and only one of them may stay. So rows come from the
last one on where fewer keys share a last row than a first one: under a window that looks ahead, as that of the rows
that need a key does.

>>> from attenio.masks.patterns import Band
>>> band = Band(rows=6, keys=6, left=2, right=0, shift=0)
>>> for turns in rolling_turns(band, held=2, slots=2):
...     print([f"{turn.key} meets {turn.rows.start} to {turn.rows[-1]}" for turn in turns])
[]
['0 meets 0 to 1']
['1 meets 1 to 2']
['0 meets 2 to 2', '2 meets 2 to 3']
['1 meets 3 to 3', '3 meets 3 to 4']
['2 meets 4 to 4', '3 meets 5 to 5', '4 meets 4 to 5', '5 meets 5 to 5']
"""

from dataclasses import dataclass, replace

from attenio.masks.patterns import Band
from attenio.masks.patterns.rolling import rolls_from_the_end, turned


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A key and the rows that it meets now, in which slot; ``arrives`` if it was not kept, ``stays`` if it will be.

    ``again``, it has met rows before; ``last``, it will meet no others.
    """

    key: int
    rows: range
    slot: int
    arrives: bool
    stays: bool
    again: bool
    last: bool


def rolling_order(band: Band, *, held: int) -> range:
    """Rows in the order in which they come, and go."""
    return range(band.rows - 1, -1, -1) if rolls_from_the_end(band, held) else range(band.rows)


def rolling_turns(band: Band, *, held: int, slots: int) -> list[list[Turn]]:
    """The turns of keys when each row has come, in their order; ``held`` rows stay, and slots keep keys."""
    if rolls_from_the_end(band, held):
        return [[_turned(band, turn) for turn in turns] for turns in _in_order(turned(band), held, slots)]
    return _in_order(band, held, slots)


def _turned(band: Band, turn: Turn) -> Turn:
    """A turn of the band with the last row and key first, as one of the band."""
    rows = range(band.rows - turn.rows.stop, band.rows - turn.rows.start)
    return replace(turn, key=band.keys - 1 - turn.key, rows=rows)


def _in_order(band: Band, held: int, slots: int) -> list[list[Turn]]:
    """The turns when rows come from the first one on."""
    found: list[list[Turn]] = [[] for _ in range(band.rows)]
    for key in range(band.keys):
        for turn in _turns_of(band, key, held, slots):
            found[min(turn.rows.start + held, band.rows) - 1].append(turn)
    # what is kept leaves its slot to what passes, and then to what will stay
    return [sorted(turns, key=lambda turn: (turn.arrives, turn.stays)) for turns in found]


def _turns_of(band: Band, key: int, held: int, slots: int) -> list[Turn]:
    """The turns of one key."""
    first, end = int(band.transposed.first_key(key)), int(band.transposed.end_key(key))
    starts = range(first, end, held)
    # keys that follow each other have first rows that do; of several with the same first row the last one counts
    begin, all_stay = int(band.live_range[0]), slots >= held
    place = (first - begin) % held
    stays = place < (held if all_stay else slots - 1)
    kept = len(starts) > 1 and stays and key == int(band.end_key(first)) - 1
    left = [(min(start + held, band.rows) - held - begin) % held for start in starts]
    return [
        Turn(
            key=key,
            rows=range(start, min(start + held, end)),
            slot=place if kept and number < 2 else left[number] if all_stay else slots - 1,
            arrives=not (kept and number == 1),
            stays=kept and number == 0,
            again=number > 0,
            last=number == len(starts) - 1,
        )
        for number, start in enumerate(starts)
    ]
