"""Laws of suggestions."""

import pytest

from attenio.catalogue.suggestions import closest, did_you_mean

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
