"""Laws of measuring without the command line's libraries."""

import pytest

from attenio.measurement.__main__ import main

ASKED = ("--n", "16", "--d", "8", "--dtype", "fp32", "--device", "cpu", "--repeats", "1")


def test_a_mistake_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *ASKED, "--mask", "documents:8,8"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "dense, causal and window" in told


def test_a_gpu_that_is_not_there_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["bench", "--n", "16", "--d", "8", "--device", "cuda"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "no NVIDIA GPU" in told
