"""The band of what is visible, as kernels take it: two diagonals in 32 bits. No other value has these two numbers."""

from functools import lru_cache
from typing import NamedTuple

from attenio.kernels.call.problem import KernelProblem

# Kernels count in 32 bits; a diagonal this far from any key restricts nothing.
FAR = 2**30


class Band(NamedTuple):
    """Row i may see the keys from i + below to i + above; of ``packed`` sequences, those of its own range only."""

    below: int = -FAR
    above: int = FAR
    packed: bool = False

    @classmethod
    def of(cls, problem: KernelProblem) -> "Band":
        """The band of a problem; ids, blocks and masks that are data come on top."""
        seen = problem.visible
        return cls(max(-FAR, min(FAR, seen.below)), max(-FAR, min(FAR, seen.above)), seen.first is not None)

    @property
    def cuts_before(self) -> bool:
        """Whether keys before a row's own are hidden."""
        return self.packed or self.below > -FAR

    @property
    def is_dense(self) -> bool:
        """Whether every score is required."""
        return not self.cuts_before and self.above >= FAR

    @property
    def is_causal(self) -> bool:
        """Whether the band hides later keys, and no earlier ones."""
        return self.above < FAR and not self.cuts_before

    @property
    def width(self) -> int:
        """Keys that a row sees at most, however many there are."""
        return max(1, self.above - self.below + 1)

    def masks(self, queries: int, keys: int, key_tile: int) -> bool:
        """Whether some tile holds a score that is not required."""
        return self.packed or self.below > -queries or self.above < keys - 1 or keys % key_tile != 0

    def spans(self, queries: int, keys: int, key_tile: int, row_tile: int) -> tuple[range, ...]:
        """Rows of whole tiles that see a key of each key tile; all, where ranges are known to the device only."""
        return _spans(Band() if self.packed else self, queries, keys, key_tile, row_tile)


@lru_cache(maxsize=256)
def _spans(band: Band, queries: int, keys: int, key_tile: int, row_tile: int) -> tuple[range, ...]:
    spans = []
    for first_key in range(0, keys, key_tile):
        first = min(max(first_key - band.above, 0), queries - 1) // row_tile * row_tile
        stop = min(min(first_key + key_tile, keys) - band.below, queries)
        spans.append(range(first, -(-stop // row_tile) * row_tile))
    return tuple(spans)
