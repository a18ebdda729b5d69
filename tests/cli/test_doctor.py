"""Laws of ``attenio doctor``."""

from importlib import metadata
from typing import Any

import pytest

from attenio import __version__
from attenio.measurement import installation, self_check


def test_it_tells_versions_extras_backends_and_that_results_are_right(attenio: Any) -> None:
    found = attenio("doctor", "--json").json
    assert found["versions"]["attenio"] == __version__
    assert found["versions"]["numpy"] == metadata.version("numpy")
    assert {"report", "pebble", "torch", "triton"} <= {each["name"] for each in found["extras"]}
    assert found["backends"]
    assert all(each["held"] for each in found["checks"]) and len(found["checks"]) == 5


def test_a_hopper_gpu_without_a_compiler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    compiler = pytest.importorskip("attenio.kernels.hopper.cuda.compiler")
    for name, value in (("is_available", True), ("get_device_name", "H200"), ("get_device_capability", (9, 0))):
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    monkeypatch.setattr(installation, "version_of", lambda name: "1")
    native = pytest.importorskip("attenio.kernels.replay.native")
    for library, reason, said in (
        (None, None, "NVRTC is missing (package nvidia-cuda-nvrtc)"), (object(), None, "H200"),
        (object(), "there is no C compiler", "; known calls are repeated by Python, not in C: there is no C compiler"),
    ):  # fmt: skip
        monkeypatch.setattr(compiler, "library", lambda library=library: library)
        monkeypatch.setattr(native, "why_not", lambda reason=reason: reason)
        assert installation.backends()[0].why.endswith(said)


def test_what_is_missing_is_told_with_the_way_to_it(attenio: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = installation.version_of
    monkeypatch.setattr(installation, "version_of", lambda name: None if name in ("torch", "plotly") else there(name))
    said = attenio("doctor", "--no-check").out
    assert "plotly (missing)" in said and "PyTorch is not installed: pip install" in said
    missing = [each.name for each in installation.extras() if not each.is_there]
    assert {"report", "torch", "cpu", "triton", "transformers"} <= set(missing)
    assert f"'.[{','.join(missing)}]'" in said
    assert all("pip install" in (each.remedy or "") for each in installation.extras() if not each.is_there)


def test_lines_are_broken_where_the_terminal_is_narrow(attenio: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    versions = attenio("doctor", "--no-check").out.partition("\n\n")[0]
    assert versions.startswith("attenio") and all(len(line) <= 20 for line in versions.splitlines())


def test_a_wrong_result_is_named_and_ends_in_status_one(attenio: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "_runs_count_what_is_planned", lambda: (False, "3 runs, 1 with another count"))
    monkeypatch.setattr(self_check, "_outputs_are_right", lambda: 1 / 0)
    for name in ("_no_plan_beats_the_bound", "_simulations_move_what_is_planned", "_attention_is_right"):
        monkeypatch.setattr(self_check, name, lambda: (True, ""))
    said = attenio("doctor")
    assert said.status == 1
    assert "NO" in said.out and "2 of 5 laws do not hold here" in said.out and "ZeroDivisionError" in said.out


def test_a_law_that_was_not_checked_is_not_said_to_hold(attenio: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "_attention_is_right", lambda: (True, "not checked: PyTorch is not installed"))
    (line,) = (each for each in attenio("doctor").out.splitlines() if each.startswith("attention() agrees"))
    assert "yes" not in line and " - " in line
