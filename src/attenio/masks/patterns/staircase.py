"""Causal masks among bands."""

from attenio.masks.patterns.band import Band
from attenio.masks.patterns.pattern import Counts


def is_staircase(band: Band) -> Counts:
    """Whether the first row needs a key, and every other one more than the row before it, up to the last key.

    >>> is_staircase(Band.causal(4, 6)), is_staircase(Band.causal(4, 3)), is_staircase(Band.dense(4, 4))
    (True, False, False)
    """
    reach = band.shift + band.right
    return (band.first_key(band.rows - 1) == 0) & (reach >= 0) & (band.rows + reach == band.keys)
