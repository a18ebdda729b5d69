"""A nested plan: tiles for every boundary of a machine with more than two levels of memory."""

from dataclasses import dataclass
from typing import Any

from attenio.display import Shown
from attenio.quantities import checked_count, show_words
from attenio.workload import Workload


@dataclass(frozen=True, kw_only=True)
class LevelTiles:
    """Positions and keys that one level holds at a time."""

    query_tile: int
    key_tile: int

    def __post_init__(self) -> None:
        for name in ("query_tile", "key_tile"):
            checked_count(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class NestedPlan(Shown):
    """One loop nest over several levels of memory; every tuple has the innermost boundary first.

    ``head_tile`` heads of a group share the keys at every level. ``moved_words[k]`` crosses boundary k and
    ``peak_words[k]`` is held by its fast side, which has ``fast_words[k]`` words.
    """

    workload: Workload
    fast_words: tuple[int, ...]
    head_tile: int
    tiles: tuple[LevelTiles, ...]
    moved_words: tuple[int, ...]
    peak_words: tuple[int, ...]

    def facts(self) -> dict[str, Any]:
        """Tiles and words of every boundary, innermost first."""
        boundaries = zip(self.tiles, self.moved_words, self.peak_words, self.fast_words, strict=True)
        return {
            "workload": str(self.workload),
            "head_tile": self.head_tile,
            **{
                f"boundary {k}": f"query_tile={tiles.query_tile:,} key_tile={tiles.key_tile:,}: moves"
                f" {show_words(moved)},"
                f" holds {peak:,} of {fast:,}"
                for k, (tiles, moved, peak, fast) in enumerate(boundaries)
            },
        }
