"""Room in fast memory for a tile, in many cases at once: ``search.room`` for arrays."""

import numpy as np

from attenio.masks.patterns.pattern import Counts
from attenio.masks.patterns.sums import ceil_div
from attenio.planning.search.room import Room
from attenio.planning.sweeping.cases import Cases, Ints


def largest_sizes(most: Counts, whole: Ints, unit: Counts) -> Ints:
    """As ``granularity.largest_size``."""
    if type(unit) is int and unit == 1:
        return np.minimum(most, whole)
    return np.where(most >= whole, whole, rounded_down(most, unit))


def rounded_down(sizes: Counts, unit: Counts) -> Counts:
    """The largest multiples of a unit up to these sizes."""
    return sizes if type(unit) is int and unit == 1 else sizes // unit * unit


def rounded_up(sizes: Counts, unit: Counts) -> Counts:
    """The smallest multiples of a unit from these sizes on."""
    return sizes if type(unit) is int and unit == 1 else ceil_div(sizes, unit) * unit


def unit_of_positions(unit: Counts, heads: Counts) -> Counts:
    """As ``Granularity.positions``."""
    return unit if type(unit) is int and unit == 1 else unit // np.gcd(unit, heads)


def row_room(cases: Cases, room: Room, heads: int = 1) -> Ints:
    """As ``search.room.row_room``, with the room as it is for one head."""
    free = type(cases.key_unit) is int and cases.key_unit == 1
    keys = 1 if free else np.minimum(cases.key_unit, cases.keys)
    least = room.per_row + room.per_score if free else room.per_row + keys * room.per_score
    most = (room.words - keys * room.per_key) // (least if heads == 1 else heads * least)
    return largest_sizes(most, cases.rows, unit_of_positions(cases.row_unit, heads))


def key_room(cases: Cases, room: Room, rows: Ints) -> Ints:
    """As ``search.room.key_room``."""
    return largest_sizes(room.most_keys(rows), cases.keys, cases.key_unit)
