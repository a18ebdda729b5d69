"""What a study answers is what its results say: nobody edits an answer by hand."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

STUDIES = Path(__file__).parents[1] / "studies"


def module_of(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.parent.name.replace('-', '_')}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def results_of(study: str) -> Any:
    return json.loads((STUDIES / study / "results.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("script", sorted(STUDIES.glob("*/answer.py")), ids=lambda path: path.parent.name)
def test_an_answer_is_what_its_script_makes_of_the_results(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(script.parent)
    text = module_of(script).answer(results_of(script.parent.name))
    assert text == script.with_suffix(".md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("study", "given"),
    [
        ("approximate-words", None),
        ("backward-crossover", None),
        ("crossover", "rows"),
        ("gradient-planner-speed", None),
        ("sparse-layouts", "rows"),
        ("certificate-tightness", "rows"),
        ("accelerator-ablation", None),
        ("simulator-speed", None),
        ("where-attenio-stops-being-best", None),
    ],
)
def test_an_answer_is_what_its_run_makes_of_the_results(study: str, given: str | None) -> None:
    results = results_of(study)
    text = module_of(STUDIES / study / "run.py").answer(results if given is None else results[given])
    assert text == (STUDIES / study / "answer.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("study", sorted(path.parent.name for path in STUDIES.glob("*/results.json")))
def test_results_say_what_made_them(study: str) -> None:
    found = results_of(study)["provenance"]
    assert {"version", "commit", "date"} <= set(found[0] if isinstance(found, list) else found)
