"""The shape of a product QKᵀ and how it is halved.

>>> [str(part) for part in Shape(rows=5, keys=4, depth=3).sub_products()][:3]
['3 x 2 x 2', '3 x 2 x 1', '3 x 2 x 1']
"""

from dataclasses import dataclass

from attenio.quantities import checked_count


@dataclass(frozen=True, kw_only=True)
class Shape:
    """``rows`` of Q against ``keys`` rows of K, both ``depth`` wide."""

    rows: int
    keys: int
    depth: int

    def __post_init__(self) -> None:
        for name in ("rows", "keys", "depth"):
            checked_count(name, getattr(self, name))

    def __str__(self) -> str:
        return f"{self.rows:,} x {self.keys:,} x {self.depth:,}"

    @property
    def scores(self) -> int:
        """Entries of the result."""
        return self.rows * self.keys

    @property
    def input_words(self) -> int:
        """Entries of Q and K."""
        return (self.rows + self.keys) * self.depth

    @property
    def halves(self) -> bool:
        """Whether all three sides can be cut in two."""
        return min(self.rows, self.keys, self.depth) >= 2

    def sub_products(self) -> "tuple[Shape, ...]":
        """The seven products of one step, in the order P1 ... P7; the upper and left halves are the larger ones.

        Where a half is shorter than the other, what a zero would fill is neither moved nor multiplied.
        """
        m, n, k = ((side + 1) // 2 for side in (self.rows, self.keys, self.depth))
        below, right, deep = self.rows - m, self.keys - n, self.depth - k
        sides = (m, n, k), (m, n, deep), (m, right, deep), (below, n, deep), (below, n, k), (m, n, k), (m, right, k)
        return tuple(Shape(rows=r, keys=c, depth=t) for r, c, t in sides)
