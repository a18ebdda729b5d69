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


@pytest.mark.parametrize(
    ("module", "kernel"),
    [("wide_rows", "wide_rows"), ("backward/narrow", "narrow_gradients"), ("backward/middle", "middle_gradients")],
)
def test_races_in_the_hand_over_to_groups_of_warps_are_told_apart(module: str, kernel: str) -> None:
    pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")
    study = module_of(STUDIES / "gpu-attention" / "sanitize.py")
    source = STUDIES.parent / "src" / "attenio" / "kernels" / "gluon" / f"{module}.py"
    lines = source.read_text(encoding="utf-8").splitlines()
    head = 1 + next(number for number, line in enumerate(lines) if line.startswith(f"def {kernel}_kernel("))
    body = 1 + next(number for number, line in enumerate(lines) if "q_s = gl.allocate" in line)
    barrier = 1 + next(number for number, line in enumerate(lines) if "mbarrier.init(" in line)

    def said(*places: int) -> str:
        race = f"========= Error: Race reported between Read access at kernel+0x1 in {source.name}:{places[0]}\n" + (
            f"=========     and Write access at kernel+0x2 in {source.name}:{places[1]} [2 hazards]\n========= \n"
        )
        return race + "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"

    assert study.found_in(said(head, head)) == (0, 1)
    assert study.found_in(said(head, body)) == (1, 0)
    assert study.found_in(said(head, barrier)) == (1, 0)
    assert study.found_in("done: dense\n")[0] is None
    assert study.found_in("========= ERROR SUMMARY: 3 errors\n") == (3, 0)
