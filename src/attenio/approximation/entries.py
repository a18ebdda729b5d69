"""How far scores can reach, from bounds on the entries of queries and keys."""

import math
from dataclasses import dataclass

from attenio.errors import InvalidInput
from attenio.names import show_value
from attenio.quantities import checked_count


def checked_positive(name: str, value: object) -> float:
    """``value`` as a finite float above zero, or one line that says what is wrong with it."""
    try:
        number = float(None if isinstance(value, bool) else value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} is {show_value(value)}; give a number above 0, such as 0.01") from None
    if math.isnan(number):
        raise InvalidInput(f"{name} is NaN; give a number above 0, such as 0.01")
    if not 0 < number < math.inf:
        raise InvalidInput(f"{name} is {number:g}; give a finite number above 0, such as 0.01")
    return number


@dataclass(frozen=True, kw_only=True)
class EntryBounds:
    """The largest size of any entry of the queries, the keys and the values.

    >>> EntryBounds.all(0.5).radius(d=64, scale=0.125)
    2.0
    """

    query: float
    key: float
    value: float = 1.0

    def __post_init__(self) -> None:
        for name in ("query", "key", "value"):
            checked_positive(f"bound on the {name} entries", getattr(self, name))

    @classmethod
    def all(cls, bound: float) -> "EntryBounds":
        """One bound for every entry."""
        return cls(query=bound, key=bound, value=bound)

    def radius(self, *, d: int, scale: float) -> float:
        """The largest size of a score: d products of two entries, times the scale."""
        checked_count("d", d, most=2**16)
        return self.query * self.key * d * abs(scale)


def radius_for(entry_bound: float, d: int, scale: float | None = None) -> float:
    """The largest size of scale * q.k when no entry exceeds ``entry_bound``; the scale is 1/sqrt(d) unless given.

    >>> radius_for(0.5, 64)
    2.0
    """
    checked_positive("entry bound", entry_bound)
    return EntryBounds.all(entry_bound).radius(d=d, scale=d**-0.5 if scale is None else scale)
