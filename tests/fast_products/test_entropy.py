from fractions import Fraction
from itertools import combinations, product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from attenio.bounds.fast_products import explicit_scores_per_epoch
from attenio.errors import InvalidInput
from attenio.fast_products.entropy import (
    SMALL_FIELD,
    all_elements,
    distinct_values,
    entry_floor,
    jacobian_rank,
    message_floor,
    published_floor,
    rectangle_floor,
)
from attenio.fast_products.shape import Shape

from .schedules import LAWS, field_product

entry_sets = arrays.arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 9)))


@pytest.mark.parametrize(
    "prime, shape",
    [
        (2, Shape(rows=3, keys=3, depth=1)),
        (2, Shape(rows=3, keys=3, depth=2)),
        (2, Shape(rows=2, keys=4, depth=2)),
        (3, Shape(rows=2, keys=3, depth=2)),
        (3, Shape(rows=3, keys=3, depth=1)),
        (5, Shape(rows=2, keys=3, depth=1)),
    ],
    ids=str,
)
def test_every_set_of_entries_takes_as_many_values_as_the_theorem_says(prime: int, shape: Shape) -> None:
    scores = field_product(*all_elements(shape, prime=prime), prime)
    for cells in product((False, True), repeat=shape.scores):
        entries = np.array(cells).reshape(shape.rows, shape.keys)
        values = distinct_values((scores[:, i, j] for i, j in np.argwhere(entries)), prime=prime)
        assert values >= prime ** message_floor(entries, shape.depth, prime=prime)
        assert values <= prime ** int(entries.sum())


def test_a_field_of_two_elements_cannot_give_every_set_of_entries_all_its_values() -> None:
    shape = Shape(rows=6, keys=4, depth=2)
    pairs = list(combinations(range(4), 2))
    entries = np.array([[key in pair for key in range(4)] for pair in pairs])
    scores = field_product(*all_elements(shape, prime=2), 2)
    values = distinct_values((scores[:, i, j] for i, j in np.argwhere(entries)), prime=2)
    assert values == 4064 < 2**12
    assert message_floor(entries, 2, prime=3) == 12
    assert values >= 2 ** message_floor(entries, 2, prime=2)


@pytest.mark.parametrize("prime", [2, 3])
@pytest.mark.parametrize("rows, keys, depth", [(1, 3, 1), (2, 2, 1), (3, 2, 1), (3, 3, 1), (2, 3, 2), (3, 2, 2)])
def test_a_rectangle_takes_as_many_values_as_there_are_matrices_of_that_rank(
    prime: int, rows: int, keys: int, depth: int
) -> None:
    shape = Shape(rows=rows, keys=keys, depth=depth)
    scores = field_product(*all_elements(shape, prime=prime), prime)
    values = distinct_values(scores.reshape(len(scores), -1).T, prime=prime)
    assert values == sum(_matrices_of_rank(rank, rows, keys, prime) for rank in range(min(rows, keys, depth) + 1))
    assert values >= prime ** rectangle_floor(rows, keys, depth)


def _matrices_of_rank(rank: int, rows: int, keys: int, prime: int) -> int:
    above = prod((prime**rows - prime**i) * (prime**keys - prime**i) for i in range(rank))
    return above // prod(prime**rank - prime**i for i in range(rank))


@LAWS
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 8), st.sampled_from([2, 3, 5]))
def test_matrices_of_small_rank_are_as_many_as_the_rectangle_floor_says(
    rows: int, keys: int, depth: int, prime: int
) -> None:
    count = sum(_matrices_of_rank(rank, rows, keys, prime) for rank in range(min(rows, keys, depth) + 1))
    assert count >= prime ** rectangle_floor(rows, keys, depth)
    assert rectangle_floor(rows, keys, depth) == jacobian_rank(np.ones((rows, keys), dtype=bool), depth)


@LAWS
@given(entry_sets, st.integers(1, 5), st.sampled_from([2, 3, 7, 97]))
def test_floors_by_rows_and_columns_are_never_below_those_by_the_number_of_entries(
    entries: np.ndarray, d: int, prime: int
) -> None:
    count = int(entries.sum())
    large = max(entries.shape) <= prime + 1
    assert message_floor(entries, d, prime=prime) >= entry_floor(count, d, large_field=large) - 1e-9
    assert message_floor(entries, d, prime=prime) <= jacobian_rank(entries, d)


@LAWS
@given(st.integers(1, 10**6), st.integers(1, 1000))
def test_the_published_inequality_follows_in_every_field(entries: int, d: int) -> None:
    assert entry_floor(entries, d, large_field=False) >= published_floor(entries, d)
    floor = entry_floor(entries, d)
    assert explicit_scores_per_epoch(floor, float(d)) == pytest.approx(entries)


@pytest.mark.parametrize("d", range(1, 40))
def test_the_share_of_small_fields_holds_for_every_width(d: int) -> None:
    coloured = min(d * (1 - (1 - Fraction(1, d)) ** e) / e for e in range(1, d + 1))
    for q in (2, 3, 4, 5, 7):
        random = min(1 - Fraction(q**e - 1, q**d * (q - 1) * e) for e in range(1, d + 1))
        assert max(coloured, random) >= SMALL_FIELD


def test_too_many_pairs_to_try_are_refused() -> None:
    with pytest.raises(InvalidInput, match="pairs Q, K"):
        all_elements(Shape(rows=4, keys=4, depth=4), prime=3)
