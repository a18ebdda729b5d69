"""Sets of tokens as sorted spans of positions, and where one set lies within another."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Tokens:
    """Positions [start, stop), sorted, apart from each other. In memory they lie in this order.

    >>> Tokens.of([(4, 6), (0, 2), (2, 3)])
    Tokens(spans=((0, 3), (4, 6)))
    >>> Tokens.of([(4, 6), (0, 3)]).slices(Tokens.of([(1, 2), (5, 6)]))
    [slice(1, 2, None), slice(4, 5, None)]
    """

    spans: tuple[Span, ...]

    @classmethod
    def of(cls, spans: Iterable[Span]) -> "Tokens":
        """The union of spans in any order; neighbours become one."""
        together: list[Span] = []
        for start, stop in sorted(span for span in spans if span[0] < span[1]):
            if together and start <= together[-1][1]:
                together[-1] = (together[-1][0], max(together[-1][1], stop))
            else:
                together.append((start, stop))
        return cls(tuple(together))

    @classmethod
    def union(cls, sets: Iterable["Tokens"]) -> "Tokens":
        """All tokens of several sets."""
        return cls.of(span for each in sets for span in each.spans)

    def __len__(self) -> int:
        return sum(stop - start for start, stop in self.spans)

    def slices(self, part: "Tokens") -> list[slice]:
        """Where the tokens of a part lie in memory among these, in its order."""
        found, offset, mine = [], 0, iter(self.spans)
        start, stop = next(mine, (0, 0))
        for first, end in part.spans:
            while stop < end:
                offset += stop - start
                start, stop = next(mine)
            found.append(slice(offset + first - start, offset + end - start))
        return found

    def within(self, start: int, stop: int) -> "Tokens":
        """Those at positions [start, stop)."""
        return Tokens(tuple((max(a, start), min(b, stop)) for a, b in self.spans if max(a, start) < min(b, stop)))

    def without(self, part: "Tokens") -> "Tokens":
        """Those that are not in a part.

        >>> Tokens.of([(0, 6)]).without(Tokens.of([(1, 2), (5, 6)]))
        Tokens(spans=((0, 1), (2, 5)))
        """
        left: list[Span] = []
        away = iter((*part.spans, (2**62, 2**62)))
        first, end = next(away)
        for start, stop in self.spans:
            at = start
            while first < stop:
                if first > at:
                    left.append((at, first))
                at = max(at, end)
                if end > stop:
                    break
                first, end = next(away)
            if at < stop:
                left.append((at, stop))
        return Tokens(tuple(left))

    def common(self, other: "Tokens") -> int:
        """How many are in both."""
        total, mine, theirs = 0, 0, 0
        while mine < len(self.spans) and theirs < len(other.spans):
            (a, b), (c, d) = self.spans[mine], other.spans[theirs]
            total += max(0, min(b, d) - max(a, c))
            mine, theirs = (mine + 1, theirs) if b <= d else (mine, theirs + 1)
        return total

    def both(self, other: "Tokens") -> "Tokens":
        """Those that are in both."""
        return self.without(self.without(other))
