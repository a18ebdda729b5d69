"""The values of a matrix that has few of them in a row, side by side: as large as they are, and not as the matrix."""

from typing import cast

import numpy as np
from numpy.typing import NDArray

from attenio.memory.indices import Indices, as_array
from attenio.memory.matrix import SlowArray, Values


class BandedValues:
    """Row i has values in ``width`` columns from ``first[i]`` on; elsewhere there is NaN, which nothing changes.

    >>> band = BandedValues(np.array([0, 1, 2]), 2)
    >>> band[slice(0, 2), slice(1, 3)] = np.array([[5, np.nan], [6, 7]])
    >>> band[slice(0, 3), slice(0, 3)].tolist()
    [[nan, 5.0, nan], [nan, 6.0, 7.0], [nan, nan, nan]]
    """

    def __init__(self, first: NDArray[np.intp], width: int) -> None:
        self._first = first
        self._values = np.full((len(first), width), np.nan, dtype=np.float32)

    def _places(self, where: tuple[Indices, Indices]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
        """Rows and columns here, those outside of the band at its beginning, and which are inside."""
        rows = as_array(where[0])[:, None]
        columns = as_array(where[1])[None, :] - self._first[rows]
        inside = (columns >= 0) & (columns < self._values.shape[1])
        return rows, np.where(inside, columns, 0), inside

    def __getitem__(self, where: tuple[Indices, Indices]) -> Values:
        rows, columns, inside = self._places(where)
        return np.where(inside, self._values[rows, columns], np.float32(np.nan))

    def __setitem__(self, where: tuple[Indices, Indices], values: Values) -> None:
        rows, columns, inside = self._places(where)
        if not np.isnan(values[~inside]).all():
            raise AssertionError("a value outside of the band would be lost")
        self._values[np.broadcast_to(rows, inside.shape)[inside], columns[inside]] = values[inside]


def banded_intermediate(name: str, first: NDArray[np.intp], shape: tuple[int, int], words_each: int) -> SlowArray:
    """Room for spilled intermediates of a band: ``shape`` has the values of a row, and the columns of the matrix."""
    width, columns = shape
    values = cast(Values, BandedValues(first, width))  # which is read and written by rows and columns alone
    return SlowArray(name, values, slice(0, len(first)), slice(0, columns), words_each)
