"""A lower bound: how many words, how literally it may be taken, and what it assumes."""

from dataclasses import dataclass
from enum import Enum

__all__ = ["LowerBound", "Strength"]


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
