"""How values look: as text, as HTML in a notebook, and as rows of a pandas data frame.

>>> class Point(Shown):
...     def facts(self):
...         return {"dataflow": "attenio", "moved_words": 1234}
>>> print(Point())
Point
  dataflow     attenio
  moved_words  1,234
>>> print(Listed([Point(), Point()]))
dataflow  moved_words
attenio         1,234
attenio         1,234
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, TypeVar

from attenio.errors import MissingExtra

T = TypeVar("T")


def frame(rows: Iterable[Mapping[str, Any]] | Mapping[str, Any]) -> Any:
    """A data frame of these rows or columns; refused where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise MissingExtra("to_pandas", "pandas") from None
    return pandas.DataFrame(dict(rows) if isinstance(rows, Mapping) else [dict(row) for row in rows])


class Shown:
    """What ``facts`` says of a value, for people: ``print`` it, end a notebook's cell with it, or make it a row."""

    def facts(self) -> dict[str, Any]:
        """Names and values, in the order in which they are read."""
        raise NotImplementedError

    def __str__(self) -> str:
        facts = self.facts()
        width = max(map(len, facts))
        return "\n".join([type(self).__name__, *(f"  {name:<{width}}  {_text(each)}" for name, each in facts.items())])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(name)}</th>{_cell(each)}</tr>" for name, each in self.facts().items())
        return f"<table><caption>{escape(type(self).__name__)}</caption>{rows}</table>"

    def to_pandas(self) -> Any:
        """The facts as a data frame of one row (needs the extra ``pandas``)."""
        return frame([self.facts()])


class Listed(tuple[T, ...]):
    """A tuple of values with facts, which is a table for people."""

    __slots__ = ()

    def _table(self) -> tuple[list[str], list[list[Any]]]:
        every = [each.facts() for each in self if isinstance(each, Shown)]
        names = list(dict.fromkeys(name for facts in every for name in facts))
        return names, [[facts.get(name) for name in names] for facts in every]

    def __str__(self) -> str:
        names, rows = self._table()
        if not rows:
            return "()"
        texts = [[_text(each) for each in row] for row in rows]
        widths = [max(len(line[column]) for line in (names, *texts)) for column in range(len(names))]
        right = [any(_is_number(row[column]) for row in rows) for column in range(len(names))]
        return "\n".join(_line(line, widths, right) for line in (names, *texts))

    def _repr_html_(self) -> str:
        names, rows = self._table()
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_pandas(self) -> Any:
        """A data frame with a row for each value (needs the extra ``pandas``)."""
        names, rows = self._table()
        return frame(dict(zip(names, row, strict=True)) for row in rows)


def _line(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    columns = zip(texts, widths, right, strict=True)
    return "  ".join(text.rjust(width) if number else text.ljust(width) for text, width, number in columns).rstrip()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if _is_number(value) else str(value)


def _cell(value: Any) -> str:
    align = "right" if _is_number(value) else "left"
    return f'<td style="text-align: {align}">{escape(_text(value))}</td>'
