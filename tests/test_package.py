"""Laws of the package's own names."""

import pytest

import attenio


def test_every_public_name_is_found_and_listed():
    for name in set(attenio.__all__) - {"attention", "explain"}:
        assert getattr(attenio, name).__name__ == name
        assert name in dir(attenio)


def test_modules_of_public_names_need_no_import_of_their_own():
    assert attenio.planning.best_plan is attenio.best_plan


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'best_plam'"):
        attenio.best_plam  # noqa: B018
