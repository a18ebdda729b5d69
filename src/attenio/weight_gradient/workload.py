"""What is computed: the gradient of attention with respect to its weights.

    O = softmax(scale A1 X A2^T) A3 Y        given dO, asked for: dX and dY

A1 holds a row for every query, A2 and A3 one for every key; X and Y are d x d, as in [BW].
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TypedDict, Unpack

import numpy as np

from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.masks import BandMask, Causal, Dense, SlidingWindow, mask_from_text
from attenio.masks.patterns import Band, band_of
from attenio.names import check_keywords, checked_kind, show_value
from attenio.quantities import checked_count
from attenio.workload import checked_lengths


class NumberOptions(TypedDict, total=False):
    """The types of a gradient's numbers, and the factor on its scores."""

    dtype: ElementType | str
    accumulator: ElementType | str | None
    scale: float


@dataclass(frozen=True, init=False)
class WeightGradient:
    """One head: lengths, the width d of everything, which scores are required, and the type of elements.

    >>> WeightGradient(n=8192, d=64).scores
    67108864
    >>> WeightGradient(n=8, d=2, mask="causal").compulsory_words
    80

    ``n`` sets each length that is not given. ``accumulator=None`` is the word model: every value takes one word. Rows
    that need no key and keys that no row needs do not reach the result; nothing of them is read, and ``pattern`` leaves
    them out.
    """

    queries: int
    keys: int
    d: int
    mask: BandMask
    dtype: ElementType
    accumulator: ElementType | None = field(default=None)
    scale: float = field(default=1.0)

    def __init__(
        self,
        *,
        n: int | None = None,
        queries: int | None = None,
        keys: int | None = None,
        d: int,
        mask: BandMask | str = Dense(),  # noqa: B008 - frozen
        **options: Unpack[NumberOptions],
    ) -> None:
        check_keywords("WeightGradient", options, NumberOptions)
        for name, value in checked_lengths(n, queries, keys).items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "d", checked_count("d", d, most=2**16))
        object.__setattr__(self, "mask", mask_from_text(mask) if isinstance(mask, str) else mask)
        object.__setattr__(self, "dtype", ElementType.named(options.get("dtype", ElementType.FP16)))
        accumulator = options.get("accumulator")
        object.__setattr__(self, "accumulator", None if accumulator is None else ElementType.named(accumulator))
        object.__setattr__(self, "scale", options.get("scale", 1.0))
        self._check()

    def _check(self) -> None:
        if not isinstance(self.mask, Dense | Causal | SlidingWindow):
            raise InvalidInput(f"weight gradients know no mask {self.mask}; use dense, causal or a window")
        if isinstance(self.mask, SlidingWindow) and self.mask.width > self.keys:
            raise InvalidInput(
                f"window {self.mask.width:,} is wider than the {self.keys:,} keys; use a window up to {self.keys:,}"
            )
        if self.accumulator is not None and self.accumulator.bytes < self.dtype.bytes:
            raise InvalidInput(
                f"accumulator {self.accumulator.value} is narrower than element type {self.dtype.value};"
                f" use {self.dtype.value} or wider"
            )
        if not isinstance(self.scale, int | float | np.number) or not (0 < abs(self.scale) < float("inf")):
            raise InvalidInput(f"scale is {show_value(self.scale)}; give a finite number other than zero")

    @property
    def accumulator_words(self) -> int:
        """Words that one intermediate takes in memory."""
        return 1 if self.accumulator is None else self.accumulator.bytes // self.dtype.bytes

    @cached_property
    def band(self) -> Band:
        """The required scores of all rows and keys."""
        return band_of(self.mask, queries=self.queries, keys=self.keys)

    @cached_property
    def needed(self) -> tuple[slice, slice]:
        """The rows that need a key and the keys that a row needs; both follow each other without gaps."""
        first, end = self.band.live_range
        return slice(first, end), slice(self.band.first_key(first), self.band.end_key(end - 1))

    @cached_property
    def pattern(self) -> Band:
        """The required scores of the needed rows and keys: none of its rows or columns is empty."""
        rows, keys = self.needed
        return self.band.part(rows.start, rows.stop, keys.start, keys.stop)

    @property
    def scores(self) -> int:
        """Required scores (Z)."""
        return int(self.pattern.scores)

    @property
    def flops(self) -> int:
        """Multiplications and additions of products as the dataflows do them: four over the scores, four with d x d."""
        return 2 * (4 * self.scores * self.d + 4 * int(self.pattern.rows) * self.d**2)

    @property
    def compulsory_words(self) -> int:
        """Words that any run moves: needed rows of A1, dO, A2 and A3, X and Y read once, dX and dY written once."""
        return 2 * (int(self.pattern.rows) + int(self.pattern.keys)) * self.d + 4 * self.d**2

    def __str__(self) -> str:
        length = f"n={self.queries:,}" if self.queries == self.keys else f"queries={self.queries:,} keys={self.keys:,}"
        return f"weight gradient {length} d={self.d} {self.mask} {self.dtype.value}"


def checked_weight_gradient(value: object) -> WeightGradient:
    """``value`` if it is such a workload, or an error that says how to make one."""
    return checked_kind(value, WeightGradient, "workload", "a WeightGradient, such as WeightGradient(n=64, d=8)")
