"""Values of a band are those of the whole matrix, in the room of the band."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.memory import FastMemory, Tile
from attenio.memory.banded import BandedValues, banded_intermediate


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data(), rows=st.integers(1, 8), columns=st.integers(1, 9), width=st.integers(1, 4))
def test_a_band_reads_and_writes_as_a_whole_matrix(data: st.DataObject, rows: int, columns: int, width: int) -> None:
    first = np.array(data.draw(st.lists(st.integers(0, columns - 1), min_size=rows, max_size=rows)), dtype=np.intp)
    band, whole = BandedValues(first, width), np.full((rows, columns), np.nan, dtype=np.float32)
    inside = (np.arange(columns) >= first[:, None]) & (np.arange(columns) < first[:, None] + width)
    for number in range(4):
        some = [data.draw(st.integers(0, most)) for most in (rows - 1, columns - 1)]
        ends = [data.draw(st.integers(low + 1, most)) for low, most in zip(some, (rows, columns), strict=True)]
        where = slice(some[0], ends[0]), slice(some[1], ends[1])
        if data.draw(st.booleans()):
            where = np.arange(some[0], ends[0]), where[1]
        values = np.where(inside[where], np.float32(number), whole[where])
        whole[where] = values
        band[where] = values
        np.testing.assert_array_equal(band[where], whole[where])
    np.testing.assert_array_equal(band[slice(0, rows), slice(0, columns)], whole)


def test_a_value_beside_the_band_is_not_lost_in_silence() -> None:
    with pytest.raises(AssertionError, match="outside of the band"):
        BandedValues(np.array([0, 1]), 1)[slice(0, 1), slice(0, 2)] = np.array([[1.0, 2.0]])


def test_what_was_never_stored_shows() -> None:
    spilled = banded_intermediate("P", np.array([0, 1, 2]), (2, 4), 1)
    tile = Tile("P", np.zeros((3, 4), dtype=np.float32), slice(0, 3), slice(0, 4))
    FastMemory(12).load(spilled, tile)
    assert np.isnan(tile.values).all()
