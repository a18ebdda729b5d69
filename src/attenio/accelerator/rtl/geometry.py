"""Where rows lie in the array, and words in its banks: plain numbers, which the hardware is made from.

Rows fill the MACs line by line, in passes. In the last pass, rows that do not fill the array are shared: each has one
MAC in every group of lines, and the MACs of a row take its elements in turn. Row i of it lies in MAC i mod
macs_per_line of line i div macs_per_line, and further MACs of the row lie ``group`` lines below one another. Element e
goes to the (e mod ways)th of them, at address e div ways. So all banks have the same address in every cycle, and every
pass is as many addresses as cycles.

>>> shared = Geometry(rows=25, lines=4, macs_per_line=4)
>>> shared.full, shared.rest, shared.group, shared.ways(8), shared.steps(8), shared.levels(8)
(1, 9, 3, 1, 16, 0)
>>> few = Geometry(rows=3, lines=4, macs_per_line=4)
>>> few.ways(8), few.last_steps(8), few.levels(8)
(4, 2, 2)
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.pe_array import PeArray, ceil_div

Words = NDArray[np.uint16]


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """A tile of rows on an array."""

    rows: int
    lines: int
    macs_per_line: int

    @property
    def macs(self) -> int:
        """MACs of the array."""
        return self.lines * self.macs_per_line

    @property
    def full(self) -> int:
        """Passes in which every MAC has a row of its own."""
        return self.rows // self.macs

    @property
    def rest(self) -> int:
        """Rows of the last pass, if they do not fill the array."""
        return self.rows % self.macs

    @property
    def passes(self) -> int:
        """All passes."""
        return self.full + (self.rest > 0)

    @property
    def group(self) -> int:
        """Lines that the rows of the last pass fill once."""
        return ceil_div(self.rest, self.macs_per_line)

    def ways(self, width: int) -> int:
        """MACs that share a row of the last pass, for so many elements."""
        array = PeArray(lines=self.lines, macs_per_line=self.macs_per_line)
        return array.sharing(self.rest, width) if self.rest else 1

    def last_steps(self, width: int) -> int:
        """Cycles of the last pass."""
        return ceil_div(width, self.ways(width)) if self.rest else 0

    def steps(self, width: int) -> int:
        """Cycles of all passes, and addresses of a bank."""
        return self.full * width + self.last_steps(width)

    def levels(self, width: int) -> int:
        """Levels of the tree that joins the MACs of a row."""
        return (self.ways(width) - 1).bit_length()

    def beats(self, matrix: Words) -> Words:
        """The words of a tile, one for every address, line and MAC; zeros where there is none."""
        width = matrix.shape[1]
        beats = np.zeros((self.steps(width), self.lines, self.macs_per_line), dtype=np.uint16)
        for at in range(self.full):
            some = matrix[at * self.macs : (at + 1) * self.macs]
            beats[at * width : (at + 1) * width] = some.T.reshape(width, self.lines, self.macs_per_line)
        for row, way, lane in self._last_rows(width):
            own = matrix[self.full * self.macs + row, way :: self.ways(width)]
            line = row // self.macs_per_line + way * self.group
            beats[self.full * width : self.full * width + len(own), line, lane] = own
        return beats

    def matrix(self, beats: Words, width: int) -> Words:
        """The tile that such words are of."""
        matrix = np.zeros((self.rows, width), dtype=np.uint16)
        for at in range(self.full):
            some = beats[at * width : (at + 1) * width].reshape(width, self.macs)
            matrix[at * self.macs : (at + 1) * self.macs] = some.T
        for row, way, lane in self._last_rows(width):
            own = matrix[self.full * self.macs + row, way :: self.ways(width)]
            line = row // self.macs_per_line + way * self.group
            own[:] = beats[self.full * width : self.full * width + len(own), line, lane]
        return matrix

    def _last_rows(self, width: int) -> list[tuple[int, int, int]]:
        return [(row, way, row % self.macs_per_line) for row in range(self.rest) for way in range(self.ways(width))]
