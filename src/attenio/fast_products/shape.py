"""The shape of a product QKᵀ and how it is halved, and the blocks of arrays that it is computed on.

>>> [str(part) for part in Shape(rows=5, keys=4, depth=3).sub_products()][:3]
['3 x 2 x 2', '3 x 2 x 1', '3 x 2 x 1']
"""

from dataclasses import dataclass

from attenio.memory import SlowArray
from attenio.memory.indices import size
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """A rectangle of an array in slow memory: what a product or a sum works on."""

    array: SlowArray
    rows: slice
    columns: slice

    @classmethod
    def whole(cls, array: SlowArray) -> "Block":
        """All of an array."""
        height, width = array.values.shape
        return cls(array=array, rows=slice(0, height), columns=slice(0, width))

    @property
    def height(self) -> int:
        """Rows."""
        return size(self.rows)

    @property
    def width(self) -> int:
        """Columns."""
        return size(self.columns)

    @property
    def corner(self) -> tuple[int, int]:
        """Where the block begins."""
        return self.rows.start, self.columns.start

    def part(self, rows: slice, columns: slice) -> "Block":
        """Rows and columns of the block, counted from its corner."""
        top, left = self.corner
        return Block(
            array=self.array,
            rows=slice(top + rows.start, top + rows.stop),
            columns=slice(left + columns.start, left + columns.stop),
        )

    def quadrants(self) -> "tuple[Block, Block, Block, Block]":
        """Upper left, upper right, lower left, lower right; the first is the largest when a side is odd."""
        middle, centre = (self.height + 1) // 2, (self.width + 1) // 2
        upper, lower = slice(0, middle), slice(middle, self.height)
        left, right = slice(0, centre), slice(centre, self.width)
        return self.part(upper, left), self.part(upper, right), self.part(lower, left), self.part(lower, right)


def shape_of(Q: Block, K: Block) -> Shape:
    """The shape of the product of two blocks."""
    return Shape(rows=Q.height, keys=K.height, depth=Q.width)
