"""What fast products compute, as events in a trace: products of blocks, and sums of blocks.

They stand beside the events of the memory, so a schedule can be followed word by word. Words have the numbers that the
array in slow memory gives them.
"""

from dataclasses import dataclass

from attenio.memory import Event


@dataclass(frozen=True, kw_only=True)
class Term:
    """One summand of a row of sums: a word of ``operand`` for each of the first ``width`` columns."""

    sign: int
    operand: str
    row: int
    first_column: int
    width: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Combined(Event):
    """``operand[row, c] = sum of terms``, where a term that has no column c counts as zero."""

    terms: tuple[Term, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Multiplied(Event):
    """``operand[i, j] += left[i', t] right[j', t]`` over the inner indices; the sum starts anew with index 0.

    ``left_corner`` and ``right_corner`` say where in their arrays the blocks begin, ``depth`` how many inner indices
    the whole sum has.
    """

    left: str
    right: str
    left_corner: tuple[int, int]
    right_corner: tuple[int, int]
    depth: int
