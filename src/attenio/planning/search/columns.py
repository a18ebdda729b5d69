"""The best tile of p rows by c columns of outputs, when scores are read once for every tile of columns.

Words are reads*Z*w + U(p)*dv with reads = ceil(dv/c): for each number of reads the narrowest tile leaves the most rows.
"""

from dataclasses import dataclass
from math import inf, sqrt

from attenio.planning.problems import Problems
from attenio.planning.search.row_tiles import RowWords, best_row_tile

__all__ = ["OutputRoom", "OutputTile", "best_output_tile", "column_tiles", "output_floor"]


@dataclass(frozen=True, kw_only=True)
class OutputRoom:
    """Fast memory for p rows of c outputs and ``extra`` more intermediates a row."""

    words: int
    extra: int

    def most_rows(self, columns: int, intermediate_words: int) -> int:
        """Rows that fit; less than one if none does."""
        return self.words // ((columns + self.extra) * intermediate_words)


@dataclass(frozen=True, order=True)
class OutputTile:
    """A tile and its words; fewest words first, then fewest rows."""

    words: int
    rows: int
    columns: int


def column_tiles(width: int) -> list[tuple[int, int]]:
    """Every number of column tiles that a width can be cut into, with the narrowest tile that does it."""
    tiles = []
    columns = width
    while columns >= 1:
        count = -(-width // columns)
        columns = -(-width // count)
        tiles.append((count, columns))
        columns -= 1
    return tiles


def best_output_tile(problems: Problems, room: OutputRoom) -> OutputTile | None:
    """Fewest words, the fewest rows among equals, then the most columns; None if none fits."""
    w, dv = problems.intermediate_words, problems.value_dim
    form = RowWords(problems=problems, live=0, loads=dv)
    choices = []
    for reads, columns in column_tiles(dv):
        most = min(room.most_rows(columns, w), problems.most_rows)
        if most >= 1:
            fixed = reads * problems.scores * w
            choices.append((fixed + form.floor(most), fixed, most))
    best: tuple[int, int] | None = None
    for floor, fixed, most in sorted(choices):
        if best is not None and floor > best[0]:
            break
        words, rows = best_row_tile(form, most)
        best = min(best or (fixed + words, rows), (fixed + words, rows))
    if best is None:
        return None
    words, rows = best
    return OutputTile(words, rows, min(dv, room.words // (rows * w) - room.extra))


def output_floor(problems: Problems, room: OutputRoom) -> float:
    """Words that no tile which fits goes below; infinite if none fits."""
    w, dv = problems.intermediate_words, problems.value_dim
    if room.most_rows(1, w) < 1:
        return inf
    reads = max(1.0, dv * sqrt(1 / room.words))  # where reads*w + dv/p is least, p = words / ((dv/reads + extra) w)
    return problems.scores * w * (reads + dv * (dv / reads + room.extra) / room.words)
