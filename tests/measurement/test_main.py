"""Laws of measuring without the command line's libraries."""

import json
import subprocess
import sys

import pytest

from attenio.measurement.__main__ import main

ASKED = ("--n", "16", "--d", "8", "--dtype", "fp32", "--device", "cpu", "--repeats", "1")
_CODE = """
import sys
for name in ("typer", "rich", "plotly", "yaml", "ml_dtypes"):
    sys.modules[name] = None
from attenio.measurement.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def said(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", _CODE, *arguments], capture_output=True, text=True, check=False)


def test_numpy_and_torch_are_enough_to_time() -> None:
    done = said("bench", *ASKED)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["contenders"][0]["name"] == "attenio" and found["contenders"][0]["samples_ms"]
    assert found["torch"] and found["provenance"]["date"]


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
