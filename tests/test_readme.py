"""What README.md shows is what happens."""

import re
import shlex
from pathlib import Path

import pytest

from attenio.catalogue import machine_named
from attenio.cli import main
from attenio.report import answer
from attenio.workload import Workload

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^\$ \.venv/bin/attenio (.*?)(?:\s+#.*)?$", README, re.MULTILINE)


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    assert main(shlex.split(command)) == 0
    shown = next(block for block in BLOCKS if command in block)
    printed = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    for line in shown.splitlines():
        if not line.startswith("$") and line not in ("", "…"):
            assert " ".join(line.split()) in printed


def test_the_python_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    assert names["floor"] <= names["plan"].moved_words


def test_the_numbers_in_the_text_are_those_of_the_answer() -> None:
    found = answer(Workload(n=131072, d=64), machine_named("attenio-512k"))
    assert f"within {100 * (found.gap - 1):g} % of that" in " ".join(README.split())
    flash = {
        one.rule.value: one.plan.moved_words / found.bound.words
        for one in found.candidates
        if one.dataflow.value == "flash-attention-2" and one.plan is not None
    }
    text = (
        f"{flash['published']:.0f} times the bound with its published tiles and {flash['best']:g} times with the best"
    )
    assert text in " ".join(README.split())
