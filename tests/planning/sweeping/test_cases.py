"""Laws of telling cases apart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.planning.sweeping import cases

LAWS = settings(max_examples=17, deadline=None, derandomize=True)
COLUMNS = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 2), st.integers(2**40, 2**40 + 1)), min_size=1)


def check(columns: list[tuple[int, int, int]]) -> None:
    table = np.array(columns, dtype=np.int64).T
    different, place = cases.different(table)
    assert different.shape[1] == len(set(columns))
    assert [tuple(column) for column in different[:, place].T.tolist()] == columns


@LAWS
@given(columns=COLUMNS)
def test_equal_columns_are_one_and_others_are_not(columns: list[tuple[int, int, int]]) -> None:
    check(columns)


@LAWS
@given(columns=COLUMNS)
def test_columns_with_the_same_number_are_told_apart_all_the_same(columns: list[tuple[int, int, int]]) -> None:
    class Zeros:
        def integers(self, most: int, *, size: int, dtype: type) -> np.ndarray:
            return np.zeros(size, dtype=dtype)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cases.np.random, "default_rng", lambda seed: Zeros())
        check(columns)
