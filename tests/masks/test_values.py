"""Laws of masks as values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.masks import (
    BlockSparse,
    Documents,
)

laws = settings(deadline=None, derandomize=True, max_examples=20)


@laws
@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=4))
def test_a_layout_is_the_same_as_booleans_numbers_or_additive_values(rows: list[list[bool]]) -> None:
    layout = np.array(rows)
    mask = BlockSparse.from_array(layout, query_block=16)
    assert mask == BlockSparse.from_array(layout.astype(int), query_block=16)
    if not layout.all():  # all zeros would read as 0/1 values that drop everything
        assert mask == BlockSparse.from_array(np.where(layout, 0.0, -np.inf), query_block=16)
    np.testing.assert_array_equal(mask.array, layout)
    assert mask.key_block == 16


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.5])
def test_a_layout_with_a_value_that_is_no_mask_is_refused(bad: float) -> None:
    with pytest.raises(InvalidInput):
        BlockSparse.from_array(np.array([[0.0, -np.inf], [bad, 0.0]]))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (4,), (2, 2, 2)])
def test_a_layout_that_is_no_table_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="shape"):
        BlockSparse.from_array(np.zeros(shape, dtype=bool))


def test_rows_of_a_layout_are_equally_long() -> None:
    with pytest.raises(InvalidInput, match="rows of 1 to 2 blocks"):
        BlockSparse(layout=((True,), (True, False)))


def test_documents_have_as_many_key_lengths_as_query_lengths() -> None:
    with pytest.raises(InvalidInput, match="2 query lengths and 1 key lengths"):
        Documents(lengths=(3, 4), key_lengths=(5,))
    with pytest.raises(InvalidInput, match="no document"):
        Documents(lengths=())
