import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.masks.patterns.sums import ceil_div, floor_div, floor_sum, sum_clipped, sum_linear, sum_of_residues

small = st.integers(-12, 12)
laws = settings(max_examples=20, deadline=None, derandomize=True)


@laws
@given(first=small, length=st.integers(-2, 9), slope=small, offset=small)
def test_sum_linear_adds_up_the_terms(first: int, length: int, slope: int, offset: int) -> None:
    last = first + length - 1
    assert sum_linear(first, last, slope, offset) == sum(slope * i + offset for i in range(first, last + 1))


@laws
@given(first=small, length=st.integers(-2, 9), step=st.integers(1, 9), offset=small, limit=st.integers(0, 15))
def test_sum_clipped_adds_up_the_clipped_terms(first: int, length: int, step: int, offset: int, limit: int) -> None:
    last = first + length - 1
    expected = sum(min(limit, max(0, step * i + offset)) for i in range(first, last + 1))
    assert sum_clipped(first, last, step, offset, limit) == expected
    assert sum_clipped(np.array([first]), last, step, offset, limit).tolist() == [expected]


@laws
@given(count=st.integers(-1, 12), modulus=st.integers(1, 12), slope=st.integers(0, 30), offset=st.integers(0, 30))
def test_floor_sum_adds_up_the_quotients(count: int, modulus: int, slope: int, offset: int) -> None:
    expected = sum((slope * i + offset) // modulus for i in range(count))
    assert floor_sum(count, modulus, slope, offset) == expected
    assert floor_sum(np.array([count, 3]), modulus, slope, offset)[0] == expected


@laws
@given(count=st.integers(0, 40), modulus=st.integers(1, 30), data=st.data())
def test_sum_of_residues_adds_up_the_residues(count: int, modulus: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(0, modulus - 1))
    expected = sum(step * i % modulus for i in range(1, count + 1))
    assert sum_of_residues(count, step, modulus) == expected
    assert sum_of_residues(np.array([count, 3]), np.array([step, 0]), modulus).tolist() == [expected, 0]


@laws
@given(modulus=st.integers(2**29, 2**31 - 1), data=st.data())
def test_residues_of_arrays_add_up_as_those_of_integers_do(modulus: int, data: st.DataObject) -> None:
    pairs = st.tuples(st.integers(0, 2**31), st.integers(0, modulus - 1))
    counts, steps = zip(*data.draw(st.lists(pairs, min_size=1, max_size=9)), strict=True)
    expected = [sum_of_residues(count, step, modulus) for count, step in zip(counts, steps, strict=True)]
    assert sum_of_residues(np.array(counts), np.array(steps), modulus).tolist() == expected


def test_sums_of_python_integers_do_not_overflow() -> None:
    count = 2**40
    assert floor_sum(count, 3, 3 * 2**40, 0) == 2**40 * (count * (count - 1) // 2)
    assert sum_clipped(1, count, 2**40, 0, 2**90) == 2**40 * (count * (count + 1) // 2)


def test_quotients_of_long_arrays_are_exact_next_to_multiples_and_up_to_the_largest_integers() -> None:
    random = np.random.default_rng(0)
    for bits in (20, 50, 51, 53, 61):
        denominators = random.integers(1, 2 ** random.integers(1, bits, 5000), dtype=np.int64)
        multiples = random.integers(-(2**bits), 2**bits, 5000) // denominators * denominators
        numerators = multiples + random.integers(-1, 2, 5000)
        down, up = floor_div(numerators, denominators), ceil_div(numerators, denominators)
        pairs = list(zip(numerators.tolist(), denominators.tolist(), strict=True))
        assert down.tolist() == [n // d for n, d in pairs]
        assert up.tolist() == [-(-n // d) for n, d in pairs]
