"""Tiles as a machine computes with them: a matrix unit takes whole blocks of rows and of keys."""

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from attenio.quantities import checked_count


@dataclass(frozen=True, kw_only=True)
class Granularity:
    """Tiles of queries are multiples of ``rows`` and tiles of keys of ``keys``, or the whole length.

    >>> Granularity(rows=64, keys=16)
    Granularity(rows=64, keys=16)
    """

    rows: int = 1
    keys: int = 1

    def __post_init__(self) -> None:
        for name in ("rows", "keys"):
            checked_count(f"{name} of a granularity", getattr(self, name), most=2**16)

    @cached_property
    def is_free(self) -> bool:
        """Whether tiles may have any size."""
        return self.rows == 1 and self.keys == 1

    @property
    def transposed(self) -> "Granularity":
        """Rows and keys exchanged."""
        return self if self.rows == self.keys else Granularity(rows=self.keys, keys=self.rows)

    def positions(self, heads: int) -> int:
        """What positions are a multiple of where so many heads share a tile: their rows lie one under the other.

        >>> Granularity(rows=64, keys=16).positions(8)
        8
        """
        return self.rows // gcd(self.rows, heads)

    def __str__(self) -> str:
        return f"tiles of {self.rows} rows and {self.keys} keys" if not self.is_free else "free tiles"


FREE_TILES = Granularity()


def largest_size(most: int, whole: int, unit: int) -> int:
    """The largest multiple of a unit up to ``most``, or the whole length where that is in reach; zero if none is."""
    return whole if most >= whole else most if unit == 1 else most // unit * unit
