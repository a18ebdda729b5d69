"""A lower bound: how many words, how literally it may be taken, and what it assumes."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from attenio.display import Shown

# What a bound covers, in words that need no theory; a theorem about other algorithms says so itself.
ANY_ALGORITHM = "any algorithm that computes attention exactly"
EXPLICIT_SCORES = "any algorithm that makes every score, with fast matrix products (Strassen's) or without"
OWN_SUMS = "any algorithm that adds up each score and each result from its own products (not Strassen's)"
OWN_ROW_SUMS = f"{OWN_SUMS} and each row's sum from its own probabilities"
MAKES_SCORES = f"{OWN_SUMS} and finds no probabilities saved"
# What is assumed of sums, forward and backward.
FORWARD_SUMS = (
    "each score is a sum of d products of its own",
    "each output is a sum of products p·v, rescaled by row factors at will",
)
BACKWARD_SUMS = (
    "each score and each dP is a sum of products of its own",
    "dQ, dK and dV are sums of products dS·k, dS·q and p·dO, in any order, each with the whole of dP",
)
GROWTH = "growth only: its slope means something, its value does not"


class Strength(Enum):
    """How literally a bound may be taken."""

    ABSOLUTE = "absolute"  # every algorithm moves at least this many words, fast matrix products included
    ORDINARY = "ordinary"  # as absolute, for products that are not fast (no Strassen) and that no input is left out of
    SCHEDULE = "schedule"  # holds for every schedule of a stated family
    ASYMPTOTIC = "asymptotic"  # growth only: compare slopes, never values


@dataclass(frozen=True, kw_only=True)
class LowerBound(Shown):
    """What a theorem says of one workload and one size of fast memory; ``covers`` says which algorithms obey it.

    Without a ``citation`` it was derived here, on its page.
    """

    theorem: str
    words: int
    strength: Strength
    covers: str
    regime: str
    citation: str = ""
    assumptions: tuple[str, ...]
    page: str

    def __post_init__(self) -> None:
        if not self.citation:
            object.__setattr__(self, "citation", f"derived here, {self.page}")

    def facts(self) -> dict[str, Any]:
        """How many words, how literally that may be taken, and which algorithms obey."""
        return {"theorem": self.theorem, "words": self.words, "strength": self.strength.value, "covers": self.covers}


def all_units(units: int) -> str:
    """The fast memories of all units as a formula names them: M, or 132 M."""
    return "M" if units == 1 else f"{units} M"


def _has_whole_epochs(work: float, fast_words: int, units: int) -> bool:
    """Whether there is one fast memory, and more than one epoch."""
    return units == 1 and (fast_words + 1) ** 3 <= work**2


def room_of_products(work: float, fast_words: int, units: int) -> str:
    """What the leading words of product epochs are divided by: a step may pass the end of an epoch, but not of all."""
    return "√M" if _has_whole_epochs(work, fast_words, units) else "√(M+1)"


def beside_leading_words(work: float, fast_words: int, units: int) -> str:
    """What product epochs have beside the words of so much work: M more, unless one epoch may do it all."""
    if _has_whole_epochs(work, fast_words, units):
        return "+ M, up to whole numbers"
    return f"- {all_units(units)} - {2 * units}"


def entries_in_words(entries: int) -> tuple[str, ...]:
    """What a bound assumes where entries of keys and values share words."""
    shared = f"{entries} entries of a key or value share a word; a query's entry, a score and a sum take one each"
    return () if entries == 1 else (shared,)


def between_units(units: int) -> tuple[str, ...]:
    """What a bound on one fast memory assumes besides when several of them work side by side."""
    return ("units exchange words through slow memory only",) if units > 1 else ()
