"""What a solver found: the best schedule, what is proven about it, and why the search ended."""

from dataclasses import dataclass
from enum import Enum

from attenio.pebbling.game import Game
from attenio.pebbling.schedule import Schedule


class Ending(Enum):
    """Why a search ended."""

    PROVEN = "proven"
    FINISHED = "search finished"  # everything a heuristic tries has been tried, and nothing is proven
    TIME = "time limit"
    MEMORY = "memory limit"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, kw_only=True)
class Solution:
    """The best schedule known, between a proven lower bound and its own cost, in words."""

    game: Game
    schedule: Schedule
    cost_words: int
    lower_bound_words: int
    ending: Ending
    engine: str
    seconds: float
    explored: int

    @property
    def optimal(self) -> bool:
        """Whether no schedule can cost less."""
        return self.cost_words == self.lower_bound_words

    @property
    def gap(self) -> float:
        """Cost over proven lower bound; 1 when optimal."""
        return self.cost_words / self.lower_bound_words if self.lower_bound_words else 1.0
