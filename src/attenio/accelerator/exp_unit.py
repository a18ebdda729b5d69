"""The EXP unit: modules that each take one exponential a cycle.

In the parallel pattern the array and the unit form a pipeline: while the modules take the exponentials of one group of
rows, the array prepares the next group and finishes the one before. Three stages give the new maximum and P (maximum,
subtract, exponential), four the rescaled row sum (subtract, exponential, multiply, add). The first exponential waits
two cycles for the array, and the array takes two more after the last. In each of these cycles the array does one
operation on every row of a group: as many rows as there are modules to feed, and MACs to feed them.

>>> ExpUnit(modules=128).cycles(1985)
16
"""

from dataclasses import dataclass

from attenio.accelerator.pe_array import ceil_div


@dataclass(frozen=True, kw_only=True)
class ExpUnit:
    """Modules that take one exponential a cycle."""

    modules: int

    # maximum and subtract before the first exponential; multiply and add after the last
    filling_cycles = 2
    draining_cycles = 2

    def group_rows(self, *, rows: int, macs: int) -> int:
        """Rows that pass through the pipelines together."""
        return min(rows, macs, self.modules)

    def cycles(self, exponentials: int) -> int:
        """Cycles in which so many exponentials are taken."""
        return ceil_div(exponentials, self.modules)
