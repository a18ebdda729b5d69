"""NumPy in a browser has indices of 32 bits, and refuses counts of 64 where it repeats or tallies; here they are cast.

Counts of words need 64 bits and have them everywhere; how often a value is repeated, and into which bin it goes, is a
position in an array that fits the browser's memory, and so fits 32.
"""

from typing import Any

import numpy as np


def accept_wide_counts() -> None:
    """Let ``np.repeat`` and ``np.bincount`` take 64-bit counts where indices have 32; elsewhere change nothing."""
    if np.dtype(np.intp).itemsize >= 8 or getattr(np.repeat, "accepts_wide_counts", False):
        return
    repeat, bincount = np.repeat, np.bincount

    def wide_repeat(values: Any, counts: Any, axis: int | None = None) -> Any:
        return repeat(values, np.asarray(counts).astype(np.intp), axis)

    def wide_bincount(places: Any, weights: Any = None, minlength: int = 0) -> Any:
        return bincount(np.asarray(places).astype(np.intp), weights, minlength)

    wide_repeat.accepts_wide_counts = True  # type: ignore[attr-defined]
    np.repeat, np.bincount = wide_repeat, wide_bincount  # type: ignore[assignment]
