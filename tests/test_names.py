"""Laws of names and of suggestions for unknown ones."""

from enum import Enum

import pytest

from attenio.errors import InvalidInput
from attenio.names import closest, did_you_mean, member_named

KNOWN = ("a100", "h100", "attenio-512k", "llama-3-70b")


@pytest.mark.parametrize("name", KNOWN)
def test_a_name_with_one_letter_wrong_suggests_that_name(name: str) -> None:
    for position in range(len(name)):
        mistyped = name[:position] + "~" + name[position + 1 :]
        near = closest(mistyped, KNOWN)
        assert near == name or (near is not None and len(near) == len(name))
    assert closest(name.upper() + "s", KNOWN) == name


def test_a_beginning_suggests_the_name_it_begins() -> None:
    assert closest("ll", KNOWN) == "llama-3-70b"


@pytest.mark.parametrize("name", ["", "zzzzzz", "😀"])
def test_nothing_is_suggested_when_nothing_is_close(name: str) -> None:
    assert closest(name, KNOWN) is None
    assert did_you_mean(name, KNOWN) == ""


class Fruit(Enum):
    APPLE = "apple"
    SWEET_CHERRY = "sweet-cherry"


@pytest.mark.parametrize("member", Fruit)
def test_a_member_is_found_by_its_value_in_any_case_and_by_itself(member: Fruit) -> None:
    assert member_named(Fruit, f" {member.value.upper()} ", "fruit") is member
    assert member_named(Fruit, member, "fruit") is member


@pytest.mark.parametrize(
    ("name", "hint"),
    [("aple", "did you mean apple? "), ("SC", "did you mean sweet-cherry? "), ("zzz", ""), ("", "")],
)
def test_an_unknown_member_is_refused_with_the_closest_and_the_known_ones(name: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        member_named(Fruit, name, "fruit", nicknames={"sc": "sweet-cherry"})
    assert str(caught.value) == f"unknown fruit {name!r}; {hint}choose one of apple, sweet-cherry"
