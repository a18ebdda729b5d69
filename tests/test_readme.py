"""What README.md shows is what happens."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from attenio import __version__
from attenio.accelerator import simulate
from attenio.bounds.attention import bounds_for, largest_ordinary
from attenio.catalogue import machine_named, model_named
from attenio.cli import main
from attenio.masks import SharedPrefix
from attenio.planning.plan import Dataflow
from attenio.report import answer
from attenio.workload import Direction, Workload

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
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
    said = " ".join(README.split())
    assert f"within {100 * (found.gap - 1):.3g} % of that" in said
    assert (found.bound.strength.value, found.bound.words * 2 // 2**30) == ("ordinary", 2)
    assert (found.absolute_bound.theorem, found.absolute_bound.words * 2) == ("fast-products", 128 * 2**20)
    memory, arithmetic = (time for time in found.times if time.resource != "exponentials")
    assert found.binding == arithmetic
    assert 55 < arithmetic.plan_seconds / memory.plan_seconds < arithmetic.plan_seconds / memory.least_seconds < 65
    flash = {
        one.rule.value: one.plan.moved_words / found.bound.words
        for one in found.candidates
        if one.dataflow.value == "flash-attention-2" and one.plan is not None
    }
    assert f"moves {flash['published']:.0f} times the bound with the tiles that the ASPLOS'26 paper" in said
    assert f"and {flash['best']:.4g} times with the best ones" in said


def test_the_doors_say_what_the_simulator_and_the_study_say() -> None:
    said = " ".join(README.split())
    done = simulate(Workload(n=131072, d=64), "attenio-512k")
    assert f"takes {done.seconds:.4g} s and {done.energy.total_joules:.3g} J for 128K tokens" in said
    study = (ROOT / "studies" / "hopper" / "answer.md").read_text(encoding="utf-8")
    forward, backward = re.findall(r"(?:forward|Backward, the same): geometric mean ([\d.]+) over 30 cases", study)
    assert f"it is {forward} and {backward} times as fast as the fastest of them" in said
    means = re.search(r"forward (\d\.\d+), backward (\d\.\d+) in the mean", study)
    assert means is not None
    ours = [f"{float(mean):.2f}" for mean in means.groups()]
    assert f"attenio reaches {ours[0]} of the speed" in said and f"forward, and {ours[1]} backward" in said
    worst = re.findall(r"front runner, (?:forward|backward): [\d.]+ over 48, the least (\d\.\d+)", study)
    assert f"at worst {float(worst[0]):.2f} and {float(worst[1]):.2f})" in said
    assert not re.findall(r"= 0\.\d+ \|", study)  # none below 1


def test_the_best_design_of_the_same_area_is_as_much_faster_as_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore-design", "--n", "128K", "--d", "64", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert f"is {found['speedup_over_base']:.2f} times as fast" in " ".join(README.split())


def test_dataflows_are_as_many_as_is_said() -> None:
    guide = (ROOT / "docs" / "guide" / "dataflows.md").read_text(encoding="utf-8")
    words = {7: "seven", 12: "twelve"}
    forward, backward = (words[len(Dataflow.towards(way))] for way in (Direction.FORWARD, Direction.BACKWARD))
    assert f"**{forward.capitalize()} dataflows**" in README
    assert f"{backward} dataflows for the gradient" in README
    assert (
        f"{forward.capitalize()} known orders of computing attention, and {backward} of computing its gradient" in guide
    )


def test_the_constant_holds_from_the_memory_on_that_is_said() -> None:
    assert "With fast memory M ≥ 2.6d² any algorithm with ordinary products moves at least 4 Z d²/M words" in README
    n, d = 65536, 64

    def over_the_constant(fast_words: int) -> float:
        most = largest_ordinary(bounds_for(Workload(n=n, d=d), fast_words)).words
        return most * fast_words / (4 * n**2 * d**2)

    assert min(over_the_constant(factor * d**2) for factor in (4, 5, 8, 20)) >= 1 - 1e-3
    assert over_the_constant(13 * d**2 // 5) >= 1 - 1e-3
    assert over_the_constant(11 * d**2 // 5) < 0.99


def test_every_link_of_the_readme_leads_to_a_file_or_a_paper() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[\w-]+)?\)|src=\"([^\"]+)\"", README)
    for link in (left or right for left, right in links):
        assert link.startswith(("https://doi.org/", "https://arxiv.org/")) or (ROOT / link).exists(), link


def test_the_citation_has_the_version_and_the_papers_of_the_readme() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    for paper in citation["references"]:
        assert paper.get("doi", paper.get("url")) in README


def test_memory_binds_where_the_flagship_says_so() -> None:
    workload = model_named("llama-3-70b").workload(keys=9 * 1024, batch=64, decode=True)
    found = answer(replace(workload, mask=SharedPrefix(length=8192)), machine_named("h200"))
    arithmetic = next(time for time in found.times if time.resource == "arithmetic")
    assert found.binding is not None
    assert found.binding.resource == "L2-HBM"
    assert 3 < found.binding.plan_seconds / arithmetic.plan_seconds < 3.5
    (flash,) = (c.plan for c in found.candidates if c.dataflow.value == "flash-attention-2" and c.rule.value == "best")
    assert flash is not None
    assert f"moves {flash.moved_words / found.bound.words:.1f} times as much" in " ".join(README.split())


def test_the_table_of_rates_has_the_medians_of_one_run() -> None:
    row = r"^\| (\w+ \w+), [^|]+ \| \W*(\d+)\W* \| \W*(\d+)\W* \| \W*(\d+)\W* \|$"
    found = set(re.findall(row, README, re.M))
    assert len(found) == 7
    measured = set()
    for case in json.loads((ROOT / "studies" / "hopper" / "results.json").read_text(encoding="utf-8"))["cases"]:
        if case["part"] == "front runner":
            rates = (
                f"{case['contenders'][name].get('tflop_per_s', 0):.0f}" for name in ("attenio", "flash-4", "cudnn")
            )
            measured.add((f"{case['about']['direction']} {case['about']['mask']}", *rates))
    assert found <= measured
