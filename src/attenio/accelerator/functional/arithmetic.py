"""What the MACs compute: products and sums kept in half precision, in the order in which the array takes them.

A multiply-accumulate takes two half-precision numbers and a half-precision sum; the product is exact and the sum is
rounded once, as a fused unit does: it is taken in double precision, which never lies on the wrong side of what half
precision rounds at, where single precision would in one of some ten thousand sums. Numbers that would overflow stay at
the largest. A row that several MACs share has as many partial sums, which a tree of additions joins; so has a sum along
a row, one for each line.

In ``Precision.EXACT`` everything is float64 and exponentials are those of NumPy: the program alone, without rounding.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attenio.accelerator.functional.exponential import ExpApproximation, exponential
from attenio.accelerator.pe_array import PeArray, ceil_div

Values = NDArray[Any]

_LARGEST = 65504.0


class Precision(Enum):
    """What numbers are kept in."""

    HALF = "fp16"
    EXACT = "float64"


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Arithmetic of an array in some precision."""

    pe: PeArray
    precision: Precision
    approximation: ExpApproximation = ExpApproximation.TABLE

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """The type of every number that is kept."""
        return np.float16 if self.precision is Precision.HALF else np.float64

    def keep(self, values: Values) -> Values:
        """Values as they are kept; -inf, which hides a score, stays."""
        if self.precision is Precision.EXACT:
            return values.astype(np.float64)
        return np.where(np.isneginf(values), -np.inf, np.clip(values, -_LARGEST, _LARGEST)).astype(np.float16)

    def add_product(self, total: Values, left: Values, right: Values) -> Values:
        """One multiply-accumulate everywhere: total + left * right."""
        return self.keep(_double(total) + _double(left) * _double(right))

    def times(self, left: Values, right: Values) -> Values:
        """Products, kept."""
        return self.keep(_wide(left) * _wide(right))

    def less(self, left: Values, right: Values) -> Values:
        """Differences, kept."""
        return self.keep(_wide(left) - _wide(right))

    def divided(self, values: Values, by: Values) -> Values:
        """Quotients, kept; zero where there is nothing to divide by."""
        return self.keep(_wide(values) / np.where(by == 0, 1, _wide(by)))

    def exponentials(self, values: Values) -> Values:
        """What the EXP unit gives."""
        return exponential(values, self.approximation) if self.precision is Precision.HALF else np.exp(values)

    def scores(self, rows: Values, keys: Values) -> Values:
        """Products of every row with every key, rows divided among the MACs as the array does it."""
        whole = len(rows) // self.pe.macs * self.pe.macs
        parts = [self._scores(rows[:whole], keys, 1)] if whole else []
        if whole < len(rows):
            parts.append(self._scores(rows[whole:], keys, self.pe.sharing(len(rows) - whole, rows.shape[1])))
        return np.concatenate(parts)

    def _scores(self, rows: Values, keys: Values, ways: int) -> Values:
        depth = rows.shape[1]
        steps = ceil_div(depth, ways)
        padding = ((0, 0), (0, steps * ways - depth))
        left = np.pad(rows, padding).reshape(len(rows), 1, steps, ways)
        right = np.pad(keys, padding).reshape(1, len(keys), steps, ways)
        # sums of several keys take turns with one another
        turns = max(1, self._turns >> (len(keys).bit_length() - 1))
        sums: list[Values] = [np.zeros((len(rows), len(keys), ways), dtype=self.dtype)] * turns
        for step in range(steps):
            sums[step % turns] = self.add_product(sums[step % turns], left[:, :, step], right[:, :, step])
        return self._joined(self._met(sums, steps))

    def add_outputs(self, outputs: Values, weights: Values, values: Values) -> Values:
        """Outputs and products of weights with values, one key after the other."""
        for key in range(len(values)):
            outputs = self.add_product(outputs, weights[:, key : key + 1], values[key])
        return outputs

    def row_sums(self, values: Values) -> Values:
        """Sums along rows: one element a line and step, then the tree."""
        lanes = min(self.pe.lines, values.shape[1])
        steps = ceil_div(values.shape[1], lanes)
        spread = np.pad(values, ((0, 0), (0, steps * lanes - values.shape[1]))).reshape(len(values), steps, lanes)
        sums: list[Values] = [np.zeros_like(spread[:, 0])] * self._turns
        for step in range(steps):
            sum_so_far = sums[step % self._turns]
            taken = spread[:, step] if step < self._turns else self.keep(_wide(sum_so_far) + _wide(spread[:, step]))
            sums[step % self._turns] = taken
        return self._joined(self._met(sums, steps))[:, None]

    @property
    def _turns(self) -> int:
        """Partial sums that a MAC has of a row, one for every cycle of an addition."""
        return self.pe.silicon.adder_cycles

    def _met(self, sums: list[Values], steps: int) -> Values:
        """Partial sums of a MAC, in the order in which they come after so many steps, added in pairs."""
        first = max(steps, len(sums)) % len(sums)
        sums = sums[first:] + sums[:first]
        while len(sums) > 1:
            sums = [self.keep(_wide(one) + _wide(other)) for one, other in zip(sums[::2], sums[1::2], strict=True)]
        return sums[0]

    def _joined(self, sums: Values) -> Values:
        """Partial sums of the last axis, neighbours first."""
        while sums.shape[-1] > 1:
            if sums.shape[-1] % 2:
                sums = np.concatenate([sums, np.zeros_like(sums[..., :1])], axis=-1)
            sums = self.keep(_wide(sums[..., ::2]) + _wide(sums[..., 1::2]))
        return sums[..., 0]


def _wide(values: Values) -> Values:
    return values.astype(np.float32) if values.dtype == np.float16 else values


def _double(values: Values) -> Values:
    return values.astype(np.float64)
