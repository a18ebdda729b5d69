"""Laws of numbers with units."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.errors import InvalidInput
from attenio.quantities import (
    bytes_of,
    checked_count,
    parse_bytes,
    parse_count,
    parse_seed,
    show_bytes,
    show_figures,
    show_seconds,
    show_words,
    words_in,
)

laws = settings(deadline=None, derandomize=True, max_examples=20)


@laws
@given(st.integers(-(10**15), 10**15))
def test_a_plain_number_is_itself_with_or_without_separators(value: int) -> None:
    assert parse_count(str(value)) == value
    assert parse_count(f"{value:,}") == value
    assert parse_bytes(f"{value:_}") == value


@laws
@given(st.integers(1, 10**6), st.sampled_from(["K", "M", "G", "T"]), st.sampled_from(["", "B", "iB", "IB"]))
def test_multiples_are_binary(value: int, multiple: str, unit: str) -> None:
    factor = 2 ** (10 * (1 + "KMGT".index(multiple)))
    assert parse_bytes(f"{value}{multiple}{unit}") == value * factor
    assert parse_bytes(f" {value} {multiple.lower()}{unit} ") == value * factor
    assert parse_count(f"{value}{multiple}") == value * factor


def test_fractions_are_read_when_they_come_out_whole() -> None:
    assert parse_bytes("1.5KB") == 1536
    assert parse_count("1e3") == 1000
    assert parse_count("1e30") == 10**30
    assert parse_count("1.5e22K") == 15 * 10**21 * 1024
    assert parse_count("1e-999999999") == 0  # at once
    with pytest.raises(InvalidInput, match="n is '1e400', which is too large; write a number such as"):
        parse_count("1e400", "n")
    with pytest.raises(InvalidInput, match="not whole"):
        parse_count("1.3K")


@pytest.mark.parametrize("text", ["", " ", "nan", "inf", "-inf", "K", "12Q", "1024,2048", "1,2", "0x10", "1 2", "--5"])
def test_text_that_is_no_number_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^n is "):
        parse_count(text, "n")


def test_a_count_has_no_bytes() -> None:
    with pytest.raises(InvalidInput, match="n is '64KB'"):
        parse_count("64KB", "n")


@pytest.mark.parametrize("text", ["80Gb", "512kb", "64 Kib", "64b"])
def test_a_size_that_may_be_bits_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=f"^size is '{text}', and b may be bits; write B for bytes, such as 65536"):
        parse_bytes(text)


@laws
@given(st.integers(1, 2**50), st.sampled_from([1, 2, 4]))
def test_words_and_bytes_convert_back_and_forth(words: int, width: int) -> None:
    assert words_in(bytes_of(words, element_bytes=width), element_bytes=width) == words
    assert words_in(bytes_of(words, element_bytes=width) + width - 1, element_bytes=width) == words


@laws
@given(st.integers(1, 100), st.integers(0, 100))
def test_a_checked_count_is_returned_exactly_when_it_is_in_range(least: int, span: int) -> None:
    assert checked_count("x", least, least=least, most=least + span) == least
    assert checked_count("x", least + span, least=least, most=least + span) == least + span
    for outside in (least - 1, least + span + 1):
        with pytest.raises(InvalidInput, match=f"x is {outside}"):
            checked_count("x", outside, least=least, most=least + span)


@pytest.mark.parametrize("value", [True, None, "5", 2.0, 2.5, float("nan"), float("inf"), [3]])
def test_a_checked_count_takes_whole_numbers_only(value: object) -> None:
    with pytest.raises(InvalidInput, match="give a whole number"):
        checked_count("x", value)


def test_numbers_are_shown_with_their_unit() -> None:
    assert show_words(1) == "1 word"
    assert show_words(1_234_567) == "1,234,567 words"
    assert show_bytes(512 * 1024) == "512 KiB"
    assert show_bytes(2**70) == "1,024 EiB"
    assert [show_seconds(s) for s in (2.5, 0.0025, 2.5e-6, 2.5e-9, 0.0)] == [
        "2.5 s",
        "2.5 ms",
        "2.5 µs",
        "2.5 ns",
        "0 s",
    ]


def test_seeds_are_whole_numbers_of_at_least_nothing() -> None:
    assert parse_seed("42") == 42
    with pytest.raises(InvalidInput, match="seed is 'abc'; write a whole number such as 0 or 42"):
        parse_seed("abc")
    with pytest.raises(InvalidInput, match="seed is -1; it must be at least 0"):
        parse_seed("-1")


def test_no_size_time_or_figure_of_more_than_one_is_a_power_of_ten_that_people_could_read_in_full() -> None:
    assert show_bytes(2**70 * 1.5) == "1,536 EiB"
    assert show_seconds(95_253_988.88) == "95,253,989 s"
    assert [show_figures(each) for each in (999.96, 1234.5, 28.64e7, 0.0, 4e60)] == [
        "1000", "1,234", "286,400,000", "0", "about 10^60",
    ]  # fmt: skip
