"""Slots that keep keys, or rows, from one tile to the next: which ones are visited in which order, and which stay.

A tile begins with what its slots hold, as far as it needs it, which is all. What it needs besides passes through a slot
that is free: first what the next tile has no use for, then the rest, of which the last stay. If no slot is free, one of
those kept gives way; the key that passes last takes its place.

>>> [[visit.key for visit in tile] for tile in turns([[0, 1, 2], [0, 1, 2]], slots=2)]
[[2, 1, 0], [1, 0, 2]]
>>> [[visit.key for visit in tile if visit.arrives] for tile in turns([[0, 1, 2], [0, 1, 2]], slots=2)]
[[2, 1, 0], [2]]
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attenio.masks.patterns import Band, Pattern
from attenio.masks.patterns.pattern import keeping_of


@dataclass(frozen=True, kw_only=True)
class Visit:
    """A key that a tile works with, in which slot; ``arrives`` if it was not kept, ``stays`` if it will be."""

    key: int
    slot: int
    arrives: bool
    stays: bool


def keeping_slots(pattern: Pattern, slots: int) -> int:
    """How many of the slots keep keys: one lets them pass, and in a band it keeps the last one to do so.

    It need not where each key that some row needs has a slot.
    """
    if isinstance(pattern, Band):
        return slots if slots > 1 or bool(pattern.is_dense) else 0
    return int(keeping_of(slots, pattern.touched_keys))


def turns(needed: Sequence[Sequence[int]], *, slots: int, keeping: int | None = None) -> Iterator[list[Visit]]:
    """The visits of every tile, given the keys that each needs; ``keeping`` of the slots keep keys."""
    keeping = slots if keeping is None else keeping
    held: dict[int, int] = {}  # key: slot
    for place, keys in enumerate(needed):
        later = set(needed[place + 1]) if place + 1 < len(needed) else set()
        staying = {key: slot for key, slot in held.items() if key in later}
        rest = [key for key in keys if key not in held]
        if rest and len(staying) == slots:
            del staying[max(staying)]
        free = [slot for slot in range(slots) if slot not in staying.values()]
        fresh = sorted((key for key in rest if key in later), reverse=True)
        room = keeping - len(staying)
        new = dict(zip(fresh[len(fresh) - room :] if room < len(fresh) else fresh, free, strict=False)) if room else {}
        passing = [key for key in rest if key not in later] + [key for key in fresh if key not in new]
        visits = [Visit(key=key, slot=slot, arrives=False, stays=key in staying) for key, slot in held.items()]
        visits += [Visit(key=key, slot=free[-1], arrives=True, stays=False) for key in passing]
        # the slot that keys pass through is taken last
        visits += [Visit(key=key, slot=slot, arrives=True, stays=True) for key, slot in new.items()]
        yield visits
        held = staying | new


def needed_by_tiles(pattern: Pattern, tile: int) -> list[list[int]]:
    """The keys that every tile of so many rows needs."""
    tops = range(0, pattern.rows, tile)
    return [pattern.needed_keys(top, min(top + tile, pattern.rows)).tolist() for top in tops]
