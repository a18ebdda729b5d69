"""A lower bound: how many words, how literally it may be taken, and what it assumes."""

from dataclasses import dataclass
from enum import Enum

__all__ = ["LowerBound", "Strength", "all_units", "between_units"]


class Strength(Enum):
    """How literally a bound may be taken."""

    ABSOLUTE = "absolute"  # every legal execution moves at least this many words
    SCHEDULE = "schedule"  # holds for every schedule of a stated family
    ASYMPTOTIC = "asymptotic"  # growth only: compare slopes, never values


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """What a theorem says of one workload and one size of fast memory."""

    theorem: str
    words: int
    strength: Strength
    regime: str
    citation: str
    assumptions: tuple[str, ...]
    page: str


def all_units(units: int) -> str:
    """The fast memories of all units as a formula names them: M, or 132 M."""
    return "M" if units == 1 else f"{units} M"


def between_units(units: int) -> tuple[str, ...]:
    """What a bound on one fast memory assumes besides when several of them work side by side."""
    return ("units exchange words through slow memory only",) if units > 1 else ()
