"""Laws of YAML read with its lines."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attenio.catalogue.yaml_fields import Section, parse_rate, sections_in
from attenio.errors import InvalidInput

laws = settings(deadline=None, derandomize=True, max_examples=20)


@laws
@given(st.integers(1, 10**6), st.sampled_from(["", "k", "M", "G", "T", "P"]), st.sampled_from(["B/s", "FLOP/s", "/s"]))
def test_rates_are_decimal_unless_they_say_otherwise(value: int, multiple: str, unit: str) -> None:
    power = "kMGTP".index(multiple) + 1 if multiple else 0
    assert parse_rate(f"{value} {multiple}{unit}", "rate", unit=unit) == float(value * 1000**power)
    assert parse_rate(f"{value}{multiple}", "rate", unit=unit) == float(value * 1000**power)
    if multiple:
        assert parse_rate(f"{value} {multiple}i{unit}", "rate", unit=unit) == float(value * 1024**power)


def test_a_rate_with_a_point_is_exact() -> None:
    assert parse_rate("2.039 TB/s", "rate", unit="B/s") == 2.039e12
    assert parse_rate("1.28e11", "rate", unit="B/s") == 1.28e11
    assert parse_rate("312 TFLOPS", "rate", unit="FLOP/s") == 312e12


@pytest.mark.parametrize(
    "text", ["", "fast", "nan", "-3 GB/s", "0", "1e999", "128 Gb/s", "128 GB", "5 TFLOP/s", ".nan", ".inf"]
)
def test_text_that_is_no_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^bw is .* such as 128e9 or 128 GB/s"):
        parse_rate(text, "bw", unit="B/s")


@laws
@given(st.integers(0, 20), st.integers(0, 20))
def test_an_error_names_the_line_of_the_value_that_causes_it(before: int, between: int) -> None:
    text = "# c\n" * before + "name: x\n" + "\n" * between + "units: -5\n"
    [section] = sections_in(text, "my.yaml")
    with pytest.raises(InvalidInput) as caught:
        section.count("units")
    assert str(caught.value) == f"my.yaml line {before + between + 2}: units is -5; it must be at least 1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [1, 2\n", r"f line 3: .*the YAML is broken here"),
        ("a: 1\n  b: 2\n", r"f line 2: .*the YAML is broken here"),
        ("a: 1\nb: 2\na: 3\n", r"f line 3: a is given again \(first on line 1\); keep one"),
        ("a: 1\n\tb: 2\n", r"f line 2: .*broken"),
        ("a: 1\nb: \x07\n", r"f line 2: character .* is not text"),
        ("a: *b\n", r"f line 1: found undefined alias"),
        ("", r"f is empty"),
        ("# only a comment\n", r"f is empty"),
        ("just words", r"f line 1: expected 'key: value' lines, found 'just words'"),
        ("- a: 1\n- 5\n", r"f line 2: expected 'key: value' lines, found '5'"),
        ("a: 1\n--- \nb: 2\n", r"f line 2: .*broken"),
        ("[" * 100_000, r"f is nested too deeply"),
        ("- " * 50_000, r"f is nested too deeply"),
        ("".join(f"{' ' * depth}a:\n" for depth in range(1_100)), r"f is nested too deeply"),
    ],
)
def test_text_that_is_no_mapping_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        sections_in(text, "f")


def section(text: str) -> Section:
    return sections_in(text, "f")[0]


def test_values_are_read_by_kind() -> None:
    read = section("t: 'two\n  words'\nc: 4K\ns: 64KB\nr: 5 GB/s\nm: {x: 1}\nl:\n- {y: 2}\nnone:\n")
    assert (read.text("t"), read.count("c"), read.size("s"), read.rate("r", "B/s")) == ("two words", 4096, 65536, 5e9)
    assert read.section("m").count("x") == 1
    assert [entry.count("y") for entry in read.sections("l")] == [2]
    assert "none" not in read
    assert read.rate("none", "B/s") is None
    assert read.text("absent", "default") == "default"


def test_a_value_of_the_wrong_kind_is_refused_with_its_line() -> None:
    read = section("a: [1]\nb: {x: 1}\nc: 5\n")
    with pytest.raises(InvalidInput, match="f line 1: a is a list; give a single value"):
        read.count("a")
    with pytest.raises(InvalidInput, match="f line 2: b is a mapping; give a single value"):
        read.text("b")
    with pytest.raises(InvalidInput, match="f line 3: c is '5'; give a list"):
        read.sections("c")
    with pytest.raises(InvalidInput, match="f line 1: expected 'key: value' lines, found a list"):
        read.section("a")


def test_an_unknown_key_is_refused_with_the_closest_known_one() -> None:
    with pytest.raises(
        InvalidInput, match="f line 2: unknown key 'nmae'; did you mean name\\? known keys are name, size"
    ):
        section("size: 1\nnmae: x\n").only(("name", "size"))


def test_a_missing_key_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"f line 1: levels is missing; add 'levels: \.\.\.'"):
        section("name: x\n").required("levels")
