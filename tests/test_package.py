"""Laws of the package's own names."""

import pytest

import attenio
from attenio.errors import InvalidInput


def test_every_public_name_is_found_and_listed():
    for name in set(attenio.__all__) - {"attention", "explain"}:
        assert getattr(attenio, name).__name__ == name
        assert name in dir(attenio)


def test_modules_of_public_names_need_no_import_of_their_own():
    assert attenio.planning.best_plan is attenio.best_plan


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'best_plam'"):
        attenio.best_plam  # noqa: B018


@pytest.mark.parametrize("machine", ["h100", None, 65536])
@pytest.mark.parametrize("name", ["best_plan", "candidates", "lower_bounds", "nested_plan", "training_plan"])
def test_what_is_no_machine_is_refused_with_the_way_to_one(name, machine):
    with pytest.raises(InvalidInput, match=r"machine is .*; give a Machine, such as machine_named"):
        getattr(attenio, name)(attenio.Workload(n=64, d=8), machine)


@pytest.mark.parametrize("given", [{"n": 1024}, {"n": [64], "masks": "causal"}, {"n": [64], "fast_bytes": 4096}])
def test_a_list_of_a_sweep_that_is_none_is_refused(given):
    with pytest.raises(InvalidInput, match=r"of a sweep is .*; give a list, such as"):
        attenio.SweepGrid(**{"d": [8], "fast_bytes": [4096], **given})


def test_a_report_that_is_no_page_by_its_name_is_refused_before_anything_is_done(tmp_path):
    from attenio.report import write_report, write_training_report

    for write in (write_report, write_training_report):
        with pytest.raises(InvalidInput, match=r"use a name ending in \.html"):
            write(tmp_path / "x.txt", attenio.Workload(n=64, d=8), attenio.Machine.with_fast_bytes(4096))
    assert not list(tmp_path.iterdir())
