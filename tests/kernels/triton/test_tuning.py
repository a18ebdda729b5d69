"""Which of several candidates is kept."""

import pytest

pytest.importorskip("triton", reason="Triton has no package for this platform")

from triton.runtime.errors import OutOfResources

from attenio.kernels.triton import tuning


def fastest(monkeypatch, milliseconds):
    ran = []

    def run(each):
        if milliseconds[each] is None:
            raise OutOfResources(1, 0, "shared memory")
        ran.append(each)

    monkeypatch.setattr(tuning, "_milliseconds", lambda call: (call(), milliseconds[ran[-1]])[1])
    return tuning._fastest(tuple(milliseconds), run), ran


def test_the_fastest_candidate_that_fits_is_kept(monkeypatch):
    assert fastest(monkeypatch, {"a": 2.0, "b": 1.0, "c": None, "d": 3.0})[0] == "b"


def test_the_plan_decides_between_equals(monkeypatch):
    assert fastest(monkeypatch, {"a": 1.0, "b": 1.0})[0] == "a"


def test_candidates_take_turns(monkeypatch):
    _, ran = fastest(monkeypatch, {"a": 2.0, "b": 1.0})
    assert ran == ["a", "b"] * (tuning._RUNS + 1)


def test_nothing_is_measured_where_there_is_no_choice(monkeypatch):
    assert fastest(monkeypatch, {"a": 2.0, "b": None}) == ("a", ["a"])
