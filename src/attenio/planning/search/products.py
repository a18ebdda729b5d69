"""The best tile of p rows by c columns of outputs, when scores are read once for every tile of columns.

Words are reads*Z*w + U(p)*e with reads = ceil(e/c) for outputs of width e: for each number of reads the narrowest tile
leaves the most rows. Where the first columns settle what the later ones read back, these have a tile of rows of their
own.
"""

from bisect import bisect_left
from math import inf, sqrt
from typing import NamedTuple

from attenio.granularity import largest_size
from attenio.planning.problems import Problems
from attenio.planning.search.row_tiles import RowWords, best_row_tile
from attenio.planning.words.cuts import column_tiles
from attenio.planning.words.form import Product


class OutputRoom(NamedTuple):
    """Fast memory for p rows of c outputs and ``extra`` more intermediates a row.

    Outputs are ``width`` wide; None is the width of values.
    """

    words: int
    extra: int
    width: int | None = None

    def most_rows(self, problems: Problems, columns: int) -> int:
        """The largest tile of rows that fits; less than one if none does."""
        fits = self.words // ((columns + self.extra) * problems.intermediate_words)
        return largest_size(fits, problems.counts.most_rows, problems.granularity.rows)

    def full_width(self, problems: Problems) -> int:
        """The width in numbers."""
        return problems.value_dim if self.width is None else self.width


class OutputTile(NamedTuple):
    """A tile and its words; fewest words first, then fewest rows."""

    words: int
    rows: int
    columns: int


def best_output_tile(problems: Problems, room: OutputRoom) -> OutputTile | None:
    """Fewest words, the fewest rows among equals, then the most columns; None if none fits.

    Several dataflows make the same outputs from the same scores, so that an answer is kept with the problems.
    """
    question = "output tile", room.words, room.extra, room.full_width(problems)
    if question not in problems.answers:
        problems.answers[question] = _best_output_tile(problems, room)
    tile: OutputTile | None = problems.answers[question]
    return tile


def _best_output_tile(problems: Problems, room: OutputRoom) -> OutputTile | None:
    w, width = problems.intermediate_words, room.full_width(problems)
    tiles = column_tiles(width)
    if room.most_rows(problems, 1) < 1:
        return None
    start = bisect_left(tiles, (round(_balanced_reads(problems, room)),))
    best: tuple[int, int] | None = None
    # The floor is convex in the reads, so it can be left behind once and for all in either direction.
    for direction in (range(min(start, len(tiles) - 1), len(tiles)), range(start - 1, -1, -1)):
        for reads, columns in (tiles[i] for i in direction):
            if best is not None and _floor(problems, room, reads) * (1 - 1e-12) > best[0]:
                break
            best = _with_reads(problems, room, (reads, columns), best)
    assert best is not None
    words, rows = best
    return OutputTile(words, rows, min(width, room.words // (rows * w) - room.extra))


def _with_reads(
    problems: Problems, room: OutputRoom, tile: tuple[int, int], best: tuple[int, int] | None
) -> tuple[int, int] | None:
    """The better of ``best`` and the best words and rows with this number of reads and columns."""
    reads, columns = tile
    most = room.most_rows(problems, columns)
    if most < 1:
        return best
    form = RowWords(problems=problems, live=0, loads=room.full_width(problems))
    fixed = reads * problems.counts.scores * problems.intermediate_words
    if best is not None and fixed + form.floor(most) > best[0]:
        return best
    words, rows = best_row_tile(form, most)
    return min(best or (fixed + words, rows), (fixed + words, rows))


class SettledTile(NamedTuple):
    """A tile of the first columns, rows of the later ones, and their words; fewest first, in this order."""

    words: int
    rows: int
    later: int
    columns: int


def best_settled_tile(problems: Problems, phase: Product, fast_words: int, limit: float) -> SettledTile | None:
    """The best tiles of at least two runs of columns; None if none fits within the limit.

    They are kept, as two forms ask for the same, unless the limit may have hidden better ones.
    """
    question = "settled tile", phase.width, phase.extra, fast_words
    known: SettledTile | None = problems.answers.get(question)
    if known is None:
        known = _best_settled_tile(problems, phase, fast_words, limit)
        if known is not None and known.words <= limit:
            problems.answers[question] = known
    return known


def _best_settled_tile(problems: Problems, phase: Product, fast_words: int, limit: float) -> SettledTile | None:
    first, others = (OutputRoom(fast_words - 1, phase.extra - each, int(phase.width)) for each in (0, 1))
    if first.most_rows(problems, 1) < 1:
        return None
    tiles, counts = column_tiles(int(phase.width))[1:], problems.counts
    balanced = _balanced_reads(problems, others) / sqrt(1 + counts.rows / max(counts.scores, 1))
    start = bisect_left(tiles, (int(balanced) + 1,))
    best: SettledTile | None = None
    # The floor is convex in the reads, and least at this number, so that it rises in either direction.
    for direction in (range(start, len(tiles)), range(start - 1, -1, -1)):
        for reads, columns in (tiles[i] for i in direction):
            written = (reads + 2) * counts.rows * problems.intermediate_words
            if (_floor(problems, others, reads) + written) * (1 - 1e-12) > limit:
                break
            found = _with_columns(problems, (first, others), (reads, columns), limit)
            if found is not None:
                best = found if best is None else min(best, found)
                limit = min(limit, best.words)
    return best


def _with_columns(
    problems: Problems, rooms: tuple[OutputRoom, OutputRoom], tile: tuple[int, int], limit: float
) -> SettledTile | None:
    """The best tiles with this number of reads and columns, if any may keep within the limit."""
    (reads, columns), counts, width = tile, problems.counts, rooms[0].full_width(problems)
    most, later = (room.most_rows(problems, columns) for room in rooms)
    if most < 1:
        return None
    forms = [RowWords(problems=problems, live=0, loads=loads) for loads in (columns, width - columns)]
    words = (reads * counts.scores + (reads + 2) * counts.rows) * problems.intermediate_words
    if words + forms[0].floor(most) + forms[1].floor(later) > limit:
        return None
    (first, rows), (others, more) = best_row_tile(forms[0], most), best_row_tile(forms[1], later)
    return SettledTile(words + first + others, rows, more, columns)


def least_words(written: int, width: int, touched: int, room: OutputRoom, fewest: float = 1.0) -> float:
    """What no tile which fits goes below, from the words of all scores, the width of outputs, and the keys met.

    Scores are read so often at the ``fewest``.
    """
    reads = max(fewest, width / sqrt(room.words))
    return max(
        fewest * written + width * touched, written * (reads + width * (width / reads + room.extra) / room.words)
    )


def _balanced_reads(problems: Problems, room: OutputRoom) -> float:
    """The real number of reads at which reads*w + width/p is least, with p = words / ((width/reads + extra) w)."""
    return room.full_width(problems) / sqrt(room.words)


def _floor(problems: Problems, room: OutputRoom, reads: float) -> float:
    w, width = problems.intermediate_words, room.full_width(problems)
    return problems.counts.scores * w * (reads + width * (width / reads + room.extra) / room.words)


def product_floor(problems: Problems, phase: Product, fast_words: int) -> float:
    """Words that no tile which fits goes below, infinite if none fits; kept, as several dataflows make the same."""
    question = "product floor", phase.across, phase.width, phase.extra, phase.later, fast_words
    known: float | None = problems.answers.get(question)
    if known is None:
        known = problems.answers[question] = _product_floor(problems, phase, fast_words)
    return known


def _product_floor(problems: Problems, phase: Product, fast_words: int) -> float:
    counts = problems.counts
    granularity, touched, extra = problems.granularity, counts.touched_keys, phase.extra
    least = min(granularity.rows, counts.most_rows)
    if phase.across:
        touched, least = counts.touched_rows, min(granularity.keys, counts.most_keys)
    w, room = problems.intermediate_words, fast_words - 1
    if room < least * (1 + extra) * w:
        return inf
    written = counts.scores * w
    if phase.later is None:
        return problems.group * least_words(written, phase.width, touched, room_of(phase, fast_words))
    if phase.width < 2:
        return inf
    others = OutputRoom(words=room, extra=extra - 1, width=phase.width)
    return problems.group * (least_words(written, phase.width, touched, others, 2.0) + 4 * counts.rows * w)


def room_of(phase: Product, fast_words: int) -> OutputRoom:
    """Fast memory for a product, beside the word that passes."""
    return OutputRoom(words=fast_words - 1, extra=phase.extra, width=phase.width)
