import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.planning.search import divisors as module
from attenio.planning.search.divisors import divisors, least_remainder

LAWS = settings(max_examples=26, deadline=None, derandomize=True)


@LAWS
@given(number=st.integers(1, 3000), most=st.integers(1, 3000))
def test_divisors_are_all_that_divide(number: int, most: int) -> None:
    assert sorted(divisors(number, most).tolist()) == [a for a in range(1, most + 1) if number % a == 0]


@pytest.mark.parametrize(
    ("number", "count"), [(2**30, 31), (735_134_400, 1344), (2**31 - 1, 2), (32_749 * 32_719, 4), (2**40 - 87, 2)]
)
def test_divisors_of_large_numbers_are_counted(number: int, count: int) -> None:
    found = divisors(number, number)
    assert len(set(found.tolist())) == len(found) == count
    assert not (number % found).any()


@LAWS
@given(number=st.integers(1, 5000), least=st.integers(1, 200), more=st.integers(0, 2000), data=st.data())
def test_no_tile_leaves_a_smaller_remainder_and_no_smaller_one_as_small_a_one(
    number: int, least: int, more: int, data: st.DataObject
) -> None:
    largest = data.draw(st.integers(0, 30))
    left = [(number % a, a) for a in range(least, min(least + more, number) + 1)]
    expected = min(((r, a) for r, a in left if r <= largest and a >= least + r), default=None)
    with pytest.MonkeyPatch.context() as patch:
        # short ranges are divided by one by one: without that even these are taken apart
        patch.setattr(module, "_SHORT", data.draw(st.sampled_from([1, 8, 1024])))
        patch.setattr(module, "_TRIES", data.draw(st.sampled_from([1, 3, 24])))
        assert least_remainder(number, (least, least + more), largest) == expected


@pytest.mark.parametrize("number", [2**30 - 41, 10**9 + 7, 735_134_399, 118_000_041])
@pytest.mark.parametrize("most", [10_000, 700_000, 60_000_000])
def test_few_numbers_are_taken_apart_however_large(number: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def counting(number: int, most: int) -> object:
        asked.append(number)
        return divisors(number, most)

    monkeypatch.setattr(module, "divisors", counting)
    assert least_remainder(number, (41, most), 1000) is not None
    assert len(asked) <= 12
