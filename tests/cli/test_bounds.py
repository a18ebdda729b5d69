"""Laws of ``attenio bounds``."""

from typing import Any

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
