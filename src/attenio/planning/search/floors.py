"""Floors under the words of a tile of a rows by b keys, and the rows that can still stay within given words.

With Z required scores, keys read at least constant + area/a, and at most L rows in tiles that need a key,

    visits*Z/b(a) + loads*(constant + area/a) - saved*L

is convex in a because 1/b(a) is: the rows that can still do lie between the roots of a quadratic. Where the mask is
narrow that is a wide range, as a tile covers more scores than are required (see ``Band``); there the sharper
floor with the scores covered in place of Z is taken part by part.
"""

from collections.abc import Iterator
from math import isqrt, sqrt
from typing import NamedTuple

import numpy as np

from attenio.masks.patterns.pattern import Counts
from attenio.planning.problems import Problems
from attenio.planning.search.room import Room, key_room

_LARGEST_INT64_SUM = 2**62
# A root of a quadratic may lose half of its sixteen digits; this much is added on either side.
_ROOT_SLACK = 1e-7
# Other floors lose a few of the last digits.
_SLACK = 1e-12
# Ranges up to this length are not cut further: counting is as fast. Where all tiles are counted none is.
_SHORT = 256
# How often a range is narrowed; it hardly moves after a few times.
_ROUNDS = 2


class RectangleWords(NamedTuple):
    """Words as a function of the tile: ``visits`` for each key tile that a row visits, ``loads`` for each key read.

    ``saved`` once for each row of a live tile, never more than ``visits``; below zero, it costs that much. Where that
    ``may_pass`` instead, the floor is that of tiles which move less than those of the form that pays it at every visit.
    """

    problems: Problems
    visits: int
    loads: int
    saved: int = 0
    may_pass: bool = False

    def words(self, rows: int, keys: int) -> int:
        """The words of one tile."""
        problems = self.problems
        total = self.visits * problems.counts.tile_rows(rows, keys) + self.loads * problems.counts.key_loads(rows)
        return int(total - self.saved * problems.counts.live_rows(rows) if self.saved else total)

    @property
    def most_words(self) -> int:
        """A number that no count of words exceeds."""
        return (self.visits + self.loads + max(0, -self.saved)) * self.problems.counts.area

    def most_saved(self, rows: int) -> int:
        """A number that the words saved do not exceed for tiles up to this many rows."""
        if self.saved <= 0:
            return self.saved and self.saved * self.problems.counts.touched_rows
        return self.saved * self.problems.floors.most_live_rows(rows)

    @property
    def exact(self) -> type:
        """Integers that hold every count of words."""
        return np.int64 if self.most_words < _LARGEST_INT64_SUM else object

    def floor(self, rooms: tuple[Room, ...]) -> float:
        """A number that no tile in these rooms goes below."""
        problems = self.problems
        once = (self.visits - self.saved) * problems.counts.touched_rows + self.loads * problems.counts.touched_keys
        saved = self.most_saved(min([room.most_rows() for room in rooms])) if self.saved else 0
        floor: float = once
        for words, per_score, per_row, _ in rooms:
            # loads/a + visits/b, with 1/b = a*per_score/(words - a*per_row) or more: least where both terms balance
            balanced = self.loads * per_row / words + 2 * sqrt(self.loads * self.visits * per_score / words)
            floor = max(floor, float(problems.counts.scores) * balanced - saved)
        if self.may_pass and problems.granularity.keys == 1 and problems.counts.scores:
            ((words, per_score, per_row, _),) = rooms
            keys = least_resident_keys((self.visits, -self.saved), problems.counts.scores, problems.counts.rows)
            keys = max(keys, sqrt(self.visits * words / (self.loads * per_score)))
            apart = self.visits / keys + self.loads * (keys * per_score + per_row) / words
            floor = max(floor, float(problems.counts.scores) * apart * (1 - _SLACK) - saved)
        return floor

    def balanced_rows(self, room: Room) -> float:
        """The real number of rows at which that floor is attained."""
        ratio = sqrt(self.loads / (room.words * self.visits * room.per_score))
        return room.words * ratio / (1 + room.per_row * ratio)


def least_resident_keys(words: tuple[Counts, Counts], scores: Counts, rows: Counts) -> Counts:
    """Keys of a tile below which statistics of a row had better pass at every visit than stay in the room of a key.

    With v words a visit and s of statistics, tiles of b keys cost v T(b) + s L with L live rows, and where statistics
    pass (v + s) T(b + 1). As T(b) - T(b + 1) >= C/b(b + 1) - L and T(b + 1) - L <= C/(b + 1) for the scores C that
    tiles cover, the first is less only if C (v/b - s) < v (b + 1) L. C/L is no less than the scores of a row.
    """
    visits, statistics = words
    mean = scores / (rows * 1.0)
    linear = visits + statistics * mean
    return 2 * visits * mean / (linear + np.sqrt(linear * linear + 4.0 * visits * visits * mean))


def range_worth_trying(
    form: RectangleWords, rooms: tuple[Room, ...], words: int, limits: tuple[int, int]
) -> tuple[int, int]:
    """Limits outside of which the convex floor exceeds ``words``: its roots, for every room; crossed if none remain.

    Once a range is known, tiles in it cover more scores than are required, which narrows it again.
    """
    if len(form.problems.counts.shapes) > 1:
        return limits  # a tile may be clipped differently in every shape
    least, most = limits
    for _ in range(_ROUNDS):
        before = least, most
        covered = _least_covered(form.problems, least, most)
        for room in rooms:
            least, most = _roots(form, room, (words, covered), (least, most))
            if least > most:
                return least, most
        if (least, most) == before:
            break
    return least, most


def _roots(form: RectangleWords, room: Room, known: tuple[int, float], limits: tuple[int, int]) -> tuple[int, int]:
    """Limits narrowed to where loads*(constant + area/a) + visits*covered/b(a) - saved*L stays within the words."""
    (words, covered), (least, most) = known, limits
    saved = form.most_saved(most)
    for constant, area, lost in form.problems.floors.key_load_floors:
        spare = float(words + saved - form.loads * (constant - lost * most))
        squared = form.visits * covered * room.per_score + spare * room.per_row
        linear = form.visits * covered * room.per_key - form.loads * area * room.per_row - spare * room.words
        fixed = float(form.loads * area * room.words)
        within = linear * linear - 4 * squared * fixed
        if spare < 0 or (linear >= 0 and fixed > 0) or within < -_ROOT_SLACK * linear * linear:
            return least, least - 1
        if squared > 0 and linear < 0:
            top = (sqrt(max(within, 0.0)) - linear * (1 + _ROOT_SLACK)) / (2 * squared)
            least = max(least, int(fixed / (squared * top) * (1 - _ROOT_SLACK)) - 1)
            most = min(most, int(top * (1 + _ROOT_SLACK)) + 2)
    return least, most


def ranges_worth_trying(
    form: RectangleWords, rooms: tuple[Room, ...], words: int, limits: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    """The parts of a range in which floors stay within ``words``, ascending."""
    blocks = form.problems.counts.only_blocks
    short = _SHORT if blocks is None or blocks.every_size is None else form.problems.floors.arrays_at_once
    parts, run = [limits], (0, -1)
    while parts:
        least, most = parts.pop()
        if least > most or _floor(form, rooms, least, most) * (1 - _SLACK) > words:
            continue
        if most - least >= short:
            middle = isqrt(least * most) if most > 4 * least else (least + most) // 2
            parts += [(middle + 1, most), (least, middle)]
        elif least == run[1] + 1:
            run = (run[0], most)
        else:
            if run[1] > 0:
                yield run
            run = (least, most)
    if run[1] > 0:
        yield run


def _floor(form: RectangleWords, rooms: tuple[Room, ...], least: int, most: int) -> float:
    """A number that no tile of ``least`` to ``most`` rows goes below."""
    problems = form.problems
    loads = float(problems.counts.touched_keys)
    for constant, area, lost in problems.floors.key_load_floors:
        loads = max(loads, constant + area / most - lost * most)
    keys = key_room(problems, rooms, least)
    level_rows, more_keys = problems.floors.level
    alike = max(0, level_rows - 2 * most * problems.counts.patterns[0][1]) * -(-(least + more_keys) // keys)
    visits = max(_least_covered(problems, least, most) / keys, problems.counts.touched_rows, alike)
    saved = form.most_saved(most)
    # A row of a live tile visits a key tile: T visits and L live rows cost visits*T - saved*L >= (visits - saved)*T.
    meeting = visits if form.saved > 0 else problems.counts.touched_rows
    carried = max(form.visits * visits - saved, (form.visits - form.saved) * meeting)
    return float(form.loads * loads + carried)


def _least_covered(problems: Problems, least: int, most: int) -> float:
    """Scores that tiles of ``least`` to ``most`` rows cover, at least."""
    counts = problems.counts
    lengths, stretches = problems.floors.moving_ends
    # Concave in the rows, so least at an end.
    extra = min((rows - 1) * (lengths - 2 * rows * stretches) for rows in (least, most))
    # Few large tiles: each needs a key for every row at which an end moves inside it, and squares add up to no less
    # than if all were equal. Rows that need a key follow each other: other tiles have no moving end.
    rows, sequences = counts.rows, counts.sequences
    tiles = min(-(-rows // least), -(-counts.touched_rows // least) + sequences) + sequences
    moves = max(0, lengths // 2 - tiles)
    return max(counts.scores + extra / 2, float(counts.scores), moves * moves / tiles)
