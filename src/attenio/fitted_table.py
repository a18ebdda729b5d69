"""A table that crops nothing: where its columns do not fit side by side, each row stands in lines of its own."""

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from itertools import chain

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

NUMBER, NAME, TEXT = "number", "name", "text"
# Between a header and its cell, and what a column of text may be narrowed to though its longest word is then broken.
_GAP, _TEXT_WIDTH = 2, 8


class FittedTable(Table):
    """A table whose numbers and names stay whole on a narrow terminal."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, or a closer one where that fits, or its rows one below another."""
        for table in (self, self._closer()):
            if table._least_width(console, options) <= options.max_width:
                yield from super(FittedTable, table).__rich_console__(console, options)
                return
        for number, (row, *cells) in enumerate(zip(self.rows, *(each.cells for each in self.columns), strict=True)):
            if number:
                yield Text()
            lines = Table.grid(padding=(0, _GAP, 0, 0))
            lines.add_column(overflow="fold")
            lines.add_column(overflow="fold")
            for column, cell in zip(self.columns, cells, strict=True):
                if str(cell):
                    lines.add_row(*([column.header] if self.show_header else []), cell)
            lines.style = row.style or ""
            yield lines

    def _closer(self) -> "FittedTable":
        """The same with headers on several lines, and one space between columns where a line is under the header."""
        table = copy(self)
        table.padding = (0, 0, 0, 0) if self.box else self.padding
        table.columns = [replace(each, header=str(each.header).replace(" ", "\n")) for each in self.columns]
        return table

    def _least_width(self, console: Console, options: ConsoleOptions) -> int:
        """The width in which no column that must stay whole is cropped, and others are broken between words."""
        roomy = options.update_width(10_000)

        def widths(cells: Iterator[RenderableType]) -> Measurement:
            each = [Measurement.get(console, roomy, cell) for cell in cells]
            return Measurement(max(one.minimum for one in each), max(one.maximum for one in each))

        total = 0
        for column in self.columns:
            need = widths(chain([column.header], column.cells))
            total += need.maximum if column.no_wrap else min(need.minimum, _TEXT_WIDTH)
        return total + (self.padding[1] + bool(self.box)) * (len(self.columns) - 1)


def plain_table(*columns: tuple[str, str]) -> Table:
    """A table with a line under its header and nothing else; columns are (header, kind)."""
    table = FittedTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for header, kind in columns:
        # Numbers and names are never broken over two lines; other text gives way.
        right = kind == NUMBER
        table.add_column(header, justify="right" if right else "left", no_wrap=kind != TEXT, overflow="fold")
    return table
