"""Laws of ``attenio bounds``."""

from typing import Any

import pytest

from attenio import Machine, Workload, lower_bounds


def test_every_bound_is_printed_with_its_strength(attenio: Any) -> None:
    found = attenio("bounds", "--n", "4K", "--mask", "causal", "--fast-bytes", "64KB", "--json").json
    expected = lower_bounds(Workload(n=4096, d=64, mask="causal"), Machine.with_fast_bytes(65536))
    assert [(b["theorem"], b["words"], b["strength"]) for b in found["lower_bounds"]] == [
        (bound.theorem, bound.words, bound.strength.value) for bound in expected
    ]
    assert "plan" not in found


def test_every_boundary_has_its_own_bound(attenio: Any) -> None:
    found = attenio("bounds", "--n", "4K", "--machine", "h100", "--json").json
    inner, outer = found["boundaries"]
    assert inner["bound_words"] >= outer["bound_words"] > 0


def test_tables_say_what_each_bound_assumes(attenio: Any) -> None:
    said = attenio("bounds", "--n", "4K")
    assert said.status == 0
    assert all(word in said.out for word in ("absolute", "asymptotic", "Assumptions"))


def test_bounds_need_no_plan_so_a_memory_of_one_word_has_them(attenio: Any) -> None:
    found = attenio("bounds", "--n", 64, "--fast-bytes", 4, "--dtype", "fp32", "--json").json
    assert found["fast_words"] == 1
    assert max(bound["words"] for bound in found["lower_bounds"]) > 4 * 64 * 64


@pytest.mark.parametrize("direction", ["backward", "training"])
def test_bounds_know_the_direction(attenio: Any, direction: str) -> None:
    found = attenio("bounds", "--n", "4K", "--direction", direction, "--json").json
    assert found["workload"]["direction"] == direction
    expected = lower_bounds(Workload(n=4096, d=64, direction=direction), Machine.with_fast_bytes(512 * 1024))
    assert [bound["words"] for bound in found["lower_bounds"]] == [bound.words for bound in expected]


def test_a_direction_that_is_nearly_known_is_suggested(attenio: Any) -> None:
    assert "did you mean backward?" in attenio("bounds", "--direction", "backwards").mistake
