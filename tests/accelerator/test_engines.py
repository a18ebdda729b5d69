"""Laws of the engines, one by one."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attenio.accelerator.hardware import ExpUnit
from attenio.accelerator.hbm import Hbm
from attenio.accelerator.pe_array import PeArray
from attenio.parts import HbmParts

ARRAYS = st.builds(PeArray, lines=st.integers(1, 40), macs_per_line=st.integers(1, 40))
HBM = Hbm.of(HbmParts(), bytes_per_s=128 * 10**9, clock_hz=10**9, element_bytes=2)


@given(ARRAYS, st.integers(1, 5000), st.integers(1, 200))
def test_no_broadcast_beats_the_number_of_macs(array: PeArray, rows: int, steps: int) -> None:
    assert array.broadcast_cycles(rows=rows, steps=steps) * array.macs >= rows * steps


@given(ARRAYS, st.integers(1, 5000))
def test_a_row_has_at_most_one_mac_in_a_line_and_all_rows_fit(array: PeArray, rows: int) -> None:
    ways = array.ways(rows)
    assert 1 <= ways <= array.lines
    if rows <= array.macs:
        assert -(-rows // array.macs_per_line) * ways <= array.lines


@given(ARRAYS, st.integers(0, 3), st.integers(1, 1600), st.integers(1, 200))
def test_rows_of_a_last_pass_are_joined_as_if_they_were_alone(
    array: PeArray, passes: int, rows: int, steps: int
) -> None:
    last = min(rows, array.macs)
    alone = array.joining_cycles(rows=last, steps=steps)
    assert array.joining_cycles(rows=passes * array.macs + last, steps=steps) == alone


@given(ARRAYS, st.integers(1, 5000), st.integers(1, 300), st.integers(1, 3), st.booleans())
def test_a_larger_array_never_takes_longer_for_scores(
    array: PeArray, rows: int, steps: int, keys: int, more_lines: bool
) -> None:
    larger = PeArray(lines=array.lines + more_lines, macs_per_line=array.macs_per_line + (not more_lines))

    def cycles(of: PeArray) -> int:
        return keys * of.broadcast_cycles(rows=rows, steps=steps) + of.joining_cycles(rows=rows, steps=steps)

    assert cycles(larger) <= cycles(array)
    assert array.broadcast_cycles(rows=rows, steps=steps) >= larger.broadcast_cycles(rows=rows, steps=steps)


@given(ARRAYS, st.integers(1, 5000), st.integers(1, 50))
def test_no_maximum_over_keys_beats_the_number_of_macs(array: PeArray, rows: int, keys: int) -> None:
    assert array.over_keys_cycles(rows=rows, keys=keys) * array.macs >= rows * (keys - 1)


@pytest.mark.parametrize(("rows", "ways"), [(1985, 1), (1007, 2), (511, 4), (64, 32), (31, 64), (1, 64)])
def test_rows_of_the_published_tiles_share_the_published_array(rows: int, ways: int) -> None:
    assert PeArray(lines=64, macs_per_line=32).ways(rows) == ways


def test_an_inner_round_of_attenio_takes_what_its_utilisation_says() -> None:
    exp, array = ExpUnit(modules=128), PeArray(lines=64, macs_per_line=32)
    softmax = exp.filling_cycles + 2 * exp.cycles(1985) + exp.draining_cycles
    assert 2 * array.broadcast_cycles(rows=1985, steps=64) + softmax == 164


@given(st.integers(1, 10**6), st.integers(1, 10**4))
def test_no_transfer_beats_the_channels(words: int, run: int) -> None:
    floor = Fraction(words, 64) * HBM.refresh_factor
    assert floor <= HBM.transfer_cycles(words) <= HBM.transfer_cycles(words, run_words=run)
    assert HBM.transfer_cycles(words, jump=True) == HBM.transfer_cycles(words) + 42


def test_single_words_waste_their_bursts() -> None:
    assert HBM.transfer_cycles(1024, run_words=1) >= 16 * HBM.transfer_cycles(1024)


def test_refresh_takes_its_share() -> None:
    assert HBM.refresh_factor == Fraction(15, 14)
