"""The on-chip cache: a scratchpad that the program fills and empties; the planner knows its size.

The array reads its stationary operand from it, a word for every MAC and cycle, and keeps outputs and statistics in it.
It has no time of its own: it is built as wide as the array.
"""

from dataclasses import dataclass

from attenio.errors import DoesNotFit


@dataclass(frozen=True, kw_only=True)
class Cache:
    """Room for queries, outputs, scores and statistics."""

    words: int

    def check_row(self, d: int, value_dim: int) -> None:
        """Refuse a head of which not even one row of queries and outputs fits."""
        least = d + value_dim + 4
        if self.words < least:
            raise DoesNotFit(
                f"the cache holds {self.words:,} words, and one row of queries, outputs and statistics takes {least:,};"
                " use a larger cache or a narrower head"
            )
