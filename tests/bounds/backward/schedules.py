"""The words of the backward schedules, written out by hand for dense and causal heads with one word a value."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

__all__ = ["SCHEDULES", "Shape"]


def ceil(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One head: rows, keys, widths, words of fast memory. A causal head is square."""

    n: int
    m: int
    d: int
    dv: int
    fast: int
    causal: bool

    def keys_by_rows(self, a: int) -> int:
        """Key loads when tiles of a rows pass over the keys they need."""
        tiles = ceil(self.n, a)
        if not self.causal:
            return tiles * self.m
        return a * (tiles - 1) * tiles // 2 + self.n

    def rows_by_keys(self, b: int) -> int:
        """Row visits when tiles of b keys pass over the rows that need them."""
        tiles = ceil(self.m, b)
        if not self.causal:
            return tiles * self.n
        return tiles * self.n - b * (tiles - 1) * tiles // 2

    def runs(self, a: int, b: int) -> int:
        """Rows times runs of at most b keys, over tiles of a rows; a bound from below for causal heads."""
        return self.rows_by_keys(b) if self.causal else self.n * ceil(self.m, b)

    @property
    def scores(self) -> int:
        return self.n * (self.n + 1) // 2 if self.causal else self.n * self.m


def _sizes(most: int) -> list[int]:
    return sorted({min(most, max(1, int(2 ** (step / 2)))) for step in range(45)} | {most})


def _least(counts: Iterable[int]) -> int | None:
    return min(counts, default=None)


def key_stationary(s: Shape) -> int | None:
    width, r = s.d + s.dv, s.n

    def moved(b: int) -> int:
        return 2 * s.m * width + s.rows_by_keys(b) * (width + 2 + 2 * s.d) - 2 * r * s.d + r * s.dv + r * s.d

    fits = (b for b in _sizes(s.m) if 2 * b * width + width + s.d + 3 + b + 1 <= s.fast)
    widest = min(s.m, (s.fast - width - s.d - 4) // (2 * width + 1))
    return _least(moved(b) for b in (*fits, *([widest] if widest >= 1 else [])))


def query_stationary(s: Shape) -> int | None:
    width = s.d + s.dv

    def moved(a: int) -> int:
        loads = s.keys_by_rows(a)
        return s.n * (width + s.dv + 1 + s.d) + loads * width + 2 * (loads - s.m) * width + s.m * width

    widest = min(s.n, (s.fast - 2 * width - 1) // (width + s.d + 4))
    return moved(widest) if widest >= 1 else None


def two_pass(s: Shape) -> int | None:
    width = s.d + s.dv
    p = min(s.n, (s.fast - width - 1) // (width + s.d + 4))
    c = min(s.m, (s.fast - width - 3) // (2 * width + 1))
    if p < 1 or c < 1:
        return None
    first = s.n * (width + s.dv + 2 + s.d) + s.keys_by_rows(p) * width
    return first + s.m * width + s.rows_by_keys(c) * (width + 2) + s.m * width


def _gradient_phase(s: Shape, width: int, visits: Callable[[int], int], most: int, stored: int) -> int | None:
    """A tile of p rows of a gradient and c of its columns stays; scores and the other factor pass."""
    tiles = ((p, c) for c in _sizes(width) if (p := min(most, (s.fast - 1) // (c + 1))) >= 1)
    least = _least(s.scores * ceil(width, c) + visits(p) * width for p, c in tiles)
    return None if least is None else least + stored


def _last_phases(s: Shape) -> int | None:
    keys = _gradient_phase(s, s.d, s.rows_by_keys, s.m, s.m * s.d)
    queries = _gradient_phase(s, s.d, s.keys_by_rows, s.n, s.n * s.d)
    return None if keys is None or queries is None else keys + queries + s.n * (2 * s.dv + 1)


def tiled_products(s: Shape) -> int | None:
    width = s.d + s.dv
    first = _least(
        s.runs(a, b) * width + s.keys_by_rows(a) * width + 2 * s.n + 3 * s.scores
        for a in _sizes(s.n)
        if (b := min(s.m, (s.fast - 2 * a - 2) // a)) >= 1
    )
    values, last = _gradient_phase(s, s.dv, s.rows_by_keys, s.m, s.m * s.dv), _last_phases(s)
    return None if first is None or values is None or last is None else first + values + last


def fused_values(s: Shape) -> int | None:
    width = s.d + s.dv
    middle = _least(
        s.runs(a, b) * width + s.keys_by_rows(a) * (width + 2 * s.dv) + 2 * s.n + s.scores - 2 * s.dv * s.m + s.m * s.dv
        for a in _sizes(s.n)
        if (b := min(s.m, (s.fast - 3 * a - 2) // (2 * a))) >= 1
    )
    last = _last_phases(s)
    return None if middle is None or last is None else middle + last


def everything_stays(s: Shape) -> int | None:
    """All inputs, gradients and one row of scores fit: each word moves once."""
    words = (s.n + s.m) * (s.d + s.dv)
    gradients = s.n * s.d + s.m * (s.d + s.dv)
    return words + gradients if words + gradients + s.m + 3 * s.n + 4 <= s.fast else None


SCHEDULES: list[Callable[[Shape], int | None]] = [
    key_stationary,
    query_stationary,
    two_pass,
    tiled_products,
    fused_values,
    everything_stays,
]
