"""The points of the map: directions, masks, lengths, widths, and fast memories from three words to twice the inputs."""

from collections.abc import Iterator
from dataclasses import dataclass

from attenio.workload import Workload

# Fast memories, in units of d², of nd, of dW under a window of W keys, and in words.
OF_D_SQUARED = (1 / 16, 1 / 8, 0.2, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 3.4, 4, 6, 8, 12, 16, 20, 32, 64, 128)
OF_N_D = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1, 1.25, 1.5, 1.75, 2)
OF_D_W = (1 / 2, 1, 1.25, 1.5, 2, 2.5, 3, 4, 8)
IN_WORDS = (3, 4, 6, 8, 16, 64)
EQUAL_WIDTHS = (16, 64, 128)
LENGTHS = (1024, 8192, 65536)
OTHER_WIDTHS = ((64, 16), (64, 32), (64, 128), (64, 256), (64, 1024), (128, 64), (16, 256), (192, 128))


@dataclass(frozen=True, kw_only=True)
class Point:
    """One workload with one fast memory; a window has ``window`` keys, and none is 0."""

    direction: str
    mask: str
    n: int
    d: int
    value_dim: int
    window: int
    fast_words: int

    @property
    def workload(self) -> Workload:
        mask = f"window:{self.window}" if self.window else self.mask
        return Workload(n=self.n, d=self.d, value_dim=self.value_dim, mask=mask, direction=self.direction)


def points() -> Iterator[Point]:
    """Every point of the map."""
    for direction in ("forward", "backward", "training"):
        for d in EQUAL_WIDTHS:
            for n in LENGTHS:
                for mask, window in (("dense", 0), ("causal", 0), ("window", n // 16), ("window", n // 4)):
                    yield from _memories(direction, mask, n, (d, d), window)
    for direction in ("forward", "backward"):
        for widths in OTHER_WIDTHS:
            for n in LENGTHS[:2]:
                yield from _memories(direction, "dense", n, widths, 0)


def _memories(direction: str, mask: str, n: int, widths: tuple[int, int], window: int) -> Iterator[Point]:
    d, value_dim = widths
    sizes = {*IN_WORDS, *(round(f * d * d) for f in OF_D_SQUARED), *(round(f * n * d) for f in OF_N_D)}
    sizes |= {round(f * d * window) for f in OF_D_W if window}
    for fast_words in sorted(words for words in sizes if 3 <= words <= 2 * n * d):
        yield Point(direction=direction, mask=mask, n=n, d=d, value_dim=value_dim, window=window, fast_words=fast_words)
