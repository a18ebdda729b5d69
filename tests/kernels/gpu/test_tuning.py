"""Which of several candidates is kept, and for how long."""

from pathlib import Path

import pytest

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")

import torch
from triton.runtime.errors import OutOfResources

from attenio.kernels.gpu import tuning


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


@pytest.mark.parametrize(("asks", "ran"), [(None, "ab"), ("0", "ab"), ("", "ab"), ("false", "ab"), ("1", "ba")])
def test_what_was_measured_runs_where_it_is_asked_for(monkeypatch, asks, ran):
    monkeypatch.setattr(tuning, "_chosen", {"kind": "b"})
    monkeypatch.delenv(tuning.ASKS, raising=False)
    if asks is not None:
        monkeypatch.setenv(tuning.ASKS, asks)
    assert "".join(tuning.preferred("kind", "ab", torch.device("cpu"))) == ran


@pytest.mark.parametrize("asks", [False, True])
def test_candidates_are_measured_where_it_is_asked_for(monkeypatch, asks):
    ran = []
    monkeypatch.setattr(tuning, "_chosen", {})
    monkeypatch.setattr(tuning, "_loaded", {torch.device("cuda")})
    monkeypatch.setattr(tuning, "_save", lambda _file: None)
    monkeypatch.setattr(tuning, "_file", lambda _device: None)
    monkeypatch.setattr(tuning, "_fastest", lambda candidates, _run: candidates[1])
    monkeypatch.setattr(tuning.torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setenv(tuning.ASKS, "1" if asks else "0")
    tuning.tuned("kind", ("a", "b"), ran.append, torch.device("cuda"), tuning._WORTH_FLOPS)
    assert ran == ["b" if asks else "a"]


def test_what_was_found_out_about_kernels_is_forgotten_when_one_of_them_changes(monkeypatch, tmp_path):
    for folder in ("triton", "hopper", "hopper/backward"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kernel.py").write_text("one")
    monkeypatch.setattr(tuning, "__file__", str(tmp_path / "triton" / "tuning.py"))
    monkeypatch.setattr(tuning.torch.cuda, "get_device_name", lambda _device: "NVIDIA H200")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def file() -> Path:
        tuning._kernels.cache_clear()
        return tuning._file(None)

    try:
        first = file()
        assert first == file() and "nvidia-h200" in first.name
        for changed in ("hopper/kernel.py", "hopper/backward/kernel.py"):
            before = file()
            (tmp_path / changed).write_text("two")
            assert file() != before
    finally:
        tuning._kernels.cache_clear()
