"""A rectangle of an array in slow memory: what a product or a sum works on."""

from dataclasses import dataclass

from attenio.fast_products.shape import Shape
from attenio.memory import SlowArray
from attenio.memory.indices import size


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """Consecutive rows and columns of an array."""

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
