"""All rows stay while keys pass, and what some of them sum up waits for a second pass: words, room, and the best.

Everything works on integers and on arrays of many cases.
"""

from typing import NamedTuple

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div, floor_div, larger, smaller, where


class WaitingRows(NamedTuple):
    """All rows of a dense problem stay while keys pass with their gradients; what rows sum up waits for t positions.

    Keys then pass a second time for these, but for those kept in s slots: loads*(m - s) if t is not 0. It holds
    t*per_row + s*per_slot + ``beside`` words, and the larger of (n - t)*(per_row + per_sum) + ``passing`` in the first
    pass and t*per_sum in the second. Words of rows are of all heads of a group. ``across``, keys stay and rows pass.
    ``last``, if all rows wait, s keys come for the second pass alone and finish their gradients after it: m - 2s.
    """

    tile: str
    slots: str
    per_row: Counts
    per_sum: Counts
    per_slot: Counts
    passing: Counts
    beside: Counts
    loads: Counts
    across: bool = False
    last: bool = False


def held_words(phase: WaitingRows, rows: Counts, waiting: Counts, slots: Counts) -> Counts:
    """Words held at once, with so many rows of which some wait."""
    first = (rows - waiting) * (phase.per_row + phase.per_sum) + phase.passing
    return waiting * phase.per_row + slots * phase.per_slot + phase.beside + larger(first, waiting * phase.per_sum)


def read_again(phase: WaitingRows, shape: tuple[Counts, Counts], waiting: Counts, slots: Counts) -> Counts:
    """Words of keys that come a second time, for a problem of so many rows and keys."""
    rows, keys = shape
    again = keys - smaller(slots, keys)
    if phase.last:
        again = where(waiting < rows, again, larger(keys - 2 * slots, 0))
    return where(waiting > 0, phase.loads * again, 0 * keys)


def best_waiting_rows(
    phase: WaitingRows, rows: Counts, keys: Counts, fast_words: Counts
) -> tuple[Counts, Counts, Counts]:
    """The fewest words of keys that come again, the rows that wait, and the slots: less than one if nothing fits.

    With more waiting rows the first pass holds less and the second more. Slots are most where both hold as much.
    """
    if phase.across:
        rows, keys = keys, rows
    if type(fast_words) is int and rows * phase.per_row + phase.per_slot > fast_words:
        return 0, 0, 0  # the usual case, quickly

    def slots(waiting: Counts) -> Counts:
        return smaller(floor_div(fast_words - held_words(phase, rows, waiting, 0), phase.per_slot), keys)

    even = ceil_div(rows * (phase.per_row + phase.per_sum) + phase.passing, phase.per_row + 2 * phase.per_sum)
    later = smaller(even, rows)
    waiting = where(slots(later - 1) >= slots(later), later - 1, later)
    if phase.last:
        most, all_wait = slots(waiting), slots(rows)
        fewer = larger(keys - 2 * all_wait, 0) < keys - smaller(most, keys)
        waiting = where((all_wait >= 1) & (fewer | (most < 1)), rows, waiting)
    waiting = where(slots(0 * rows) >= 1, 0 * rows, waiting)
    return read_again(phase, (rows, keys), waiting, slots(waiting)), waiting, slots(waiting)
