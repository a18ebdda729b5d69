"""What a study answers is what its results say: nobody edits an answer by hand."""

import importlib.util
import json
import sys
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


ANSWERED = sorted(path for path in STUDIES.glob("*/answer.py") if path.with_name("results.json").exists())


@pytest.mark.parametrize("script", ANSWERED, ids=lambda path: path.parent.name)
def test_an_answer_is_what_its_script_makes_of_the_results(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(script.parent)
    text = module_of(script).answer(results_of(script.parent.name))
    assert text == script.with_suffix(".md").read_text(encoding="utf-8")


def test_heads_of_other_forms_are_told_beside_the_rest_whoever_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(STUDIES / "hopper")
    answer, results = module_of(STUDIES / "hopper" / "answer.py").answer, results_of("hopper")
    about = {"d": 128, "width": 128, "heads": 16, "kv_heads": 4, "n": 8192, "mask": "causal", "direction": "backward"}
    mine, peer = ({"tflop_per_s": rate, "max_abs_error": 1e-3} for rate in (510.0, 500.0))

    def row(case: str, ours: Any, theirs: Any, best: str | None, ratio: float | None) -> dict[str, Any]:
        found = {"case": case, "part": "others", "about": about, "contenders": {"attenio": ours, "cudnn": theirs}}
        return {**found, "best_peer": best, "ratio_to_best_peer": ratio, "target": None, "commit": "c0ffee"}

    refused = {"refused": "no such heads"}
    rest = [case for case in results["cases"] if case["part"] != "others"]
    others = [row("both", mine, peer, "cudnn", 1.02), row("ours", mine, refused, None, None)]
    others.append(row("theirs", refused, peer, "cudnn", None))
    text, before = (answer({**results, "cases": cases}) for cases in (rest + others, rest))
    assert "| both | 16/4 | 510 | cudnn | 500 | 1.020 | 1.0e-03 | 1.0e-03 |  |" in text
    assert "| ours | 16/4 | 510 |  |  |  | 1.0e-03 |  | cudnn |" in text
    assert "| theirs | 16/4 |  | cudnn | 500 |  |  | 1.0e-03 | attenio |" in text
    assert {line for line in before.splitlines() if line.startswith("|")} <= set(text.splitlines())
    assert before.splitlines()[-1] in text and "c0ffee" not in before


def test_cases_of_the_study_of_hopper_have_names_of_their_own_and_a_number_of_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")
    monkeypatch.syspath_prepend(STUDIES / "hopper")
    run = module_of(STUDIES / "hopper" / "run.py")
    for helper in ("cases", "others", "front_runner"):
        monkeypatch.delitem(sys.modules, helper)
    cases = [case for part in run.PARTS.values() for case in part()]
    assert len({case.name for case in cases}) == len(cases)
    assert {case.part for case in cases} == set(run.REPEATS)
    assert all(case.flops > 0 and run.OURS in case.contenders for case in cases)


@pytest.mark.parametrize("study", ["first-calls", "gpu-attention", "hopper-tiles", "host-time"])
def test_a_study_of_gpus_ends_in_a_line_where_there_is_none(
    study: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["run.py"])
    monkeypatch.syspath_prepend(STUDIES / study)
    known = set(sys.modules)
    with pytest.raises(SystemExit) as ended:
        module_of(STUDIES / study / "run.py").main()
    for helper in set(sys.modules) - known:
        if str(getattr(sys.modules[helper], "__file__", "")).startswith(str(STUDIES)):
            del sys.modules[helper]
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        "this study measures an NVIDIA GPU, and PyTorch sees none; run it where there is one\n"
    )


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
    [
        ("attenio", "attenio"),
        ("attenio_256_rows", "attenio_256_rows"),
        ("backward/key_stationary_d64", "key_stationary_d64"),
        ("backward/key_stationary_d128", "key_stationary_d128"),
    ],
)
def test_races_in_the_hand_over_to_warpgroups_are_told_apart(module: str, kernel: str) -> None:
    pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")
    study = module_of(STUDIES / "gpu-attention" / "sanitize.py")
    source = STUDIES.parent / "src" / "attenio" / "kernels" / "hopper" / f"{module}.py"
    lines = source.read_text(encoding="utf-8").splitlines()
    head = 1 + next(number for number, line in enumerate(lines) if line.startswith(f"def {kernel}_kernel("))
    body = 1 + next(number for number, line in enumerate(lines) if number >= head and "allocate" in line)
    barrier = 1 + next(number for number, line in enumerate(lines) if "mbarrier.wait(" in line)

    def said(*places: int) -> str:
        race = f"========= Error: Race reported between Read access at kernel+0x1 in {source.name}:{places[0]}\n" + (
            f"=========     and Write access at kernel+0x2 in {source.name}:{places[1]} [2 hazards]\n========= \n"
        )
        return race + "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n"

    assert study.found_in(said(head, head)) == (0, 1) and study.unexplained_races(said(head, head)) == []
    assert study.found_in(said(head, body)) == (1, 0)
    (race,) = study.unexplained_races(said(head, head) + said(head, body))
    assert f"{source.name}:{body} " in race
    assert study.found_in(said(head, barrier)) == (1, 0)
    assert study.found_in("done: dense\n")[0] is None
    assert study.found_in("========= ERROR SUMMARY: 3 errors\n") == (3, 0)


def test_cases_of_flash_attention_are_counted_run_in_turns_and_found_out_where_a_window_is_dropped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    folder = STUDIES / "flash-attention-cases"
    monkeypatch.syspath_prepend(folder)
    run, answer = module_of(folder / "run.py"), module_of(folder / "answer.py")
    grid = sys.modules["grid"]
    monkeypatch.delitem(sys.modules, "grid")
    cases = grid.cases()
    assert len({case.name for case in cases}) == len(cases)
    for test, total in grid.totals().items():
        served = total["cases"] - sum(count for reason, count in total.items() if reason != "cases")
        assert served == sum(case.test == test for case in cases)
    wanted = [case for case in grid.small() if (case.test, case.mask) in SERVED]
    made = {"version": "", "commit": "c0ffee", "date": "", "device_name": "CPU", "torch": "", "triton": None}
    out = tmp_path / "results.json"
    first = run.measured(wanted[:2], "cpu", {"provenance": [made]}, 60.0, out)
    assert len(first["cases"]) == 2
    late = run.measured(wanted, "cpu", json.loads(out.read_text()), -1.0, out)
    assert late["left_out"]["for_time"] == len(wanted) - 2 and "were left out for time" in answer.answer(late)
    done = run.measured(wanted, "cpu", json.loads(out.read_text()), 60.0, out)
    assert f"{len(wanted)} of {len(wanted)} cases hold." in answer.answer(done)
    right = run.attention
    monkeypatch.setattr(run, "attention", lambda *given, window=None, **rest: right(*given, **rest))
    wrong = run.measured([case for case in wanted if case.mask == "local"], "cpu", {"provenance": [made]}, 60.0, out)
    assert "These do not hold:" in answer.answer(wrong)
    name = wanted[0].name
    wrong["cases"][name] = {
        "test": "packed",
        "seconds": 0.0,
        "errors": {"dq": [4e-6, 0.0, 0.0], "dk": [2e-5, 0.0, 0.0]},
    }
    assert "1 of them where the right gradient is exactly 0" in answer.answer(wrong)


SERVED = {
    ("paged", "dense"),
    ("paged", "both"),
    ("dense", "local"),
    ("dense", "local right"),
    ("packed", "causal"),
    ("cached", "local"),
    ("narrow", "causal"),
}


def test_bytes_of_ranks_beside_others_are_told_as_they_were_measured() -> None:
    folder = STUDIES / "many-devices"
    results = json.loads((folder / "executor_results.json").read_text(encoding="utf-8"))
    text = module_of(folder / "executor_answer.py").answer(results)
    assert text == (folder / "executor.md").read_text(encoding="utf-8")
    for row in results["problems"]:  # every contender that ran was right
        ran = [found for found in row["contenders"].values() if "errors" in found]
        assert len(ran) >= 3 and all(error < 1e-2 for found in ran for error in found["errors"])


def test_the_tiles_that_are_shipped_are_those_of_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    script = module_of(STUDIES / "hopper-tiles" / "answer.py")
    assert script.SHIPPED.read_text(encoding="utf-8") == script.shipped(results_of("hopper-tiles"))


def test_pages_are_told_where_they_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(STUDIES / "todays-models")
    section = module_of(STUDIES / "todays-models" / "pages_answer.py").section
    assert section({}) == ""
    made = {"device": "a GPU", "torch": "2", "triton": "3", "commit": "c0ffee", "date": "today"}

    def row(case: str, **ms: float) -> dict[str, Any]:
        found = {
            name.replace("_", " "): {"median_ms": each, "samples_ms": [each], "relative_error": 1e-3}
            for name, each in ms.items()
        }
        return {"case": case, "contenders": {**found, "another": {"refused": "no"}}}

    cases = [
        row("decode", contiguous=1.0, pages_of_64=1.25, pages_of_16=1.0, fp8_pages_of_64=0.5),
        row("shared", read_once=0.1, pages_by_request=1.5),
    ]
    text = section({"paged": {"provenance": made, "cases": cases}})
    assert "decode: pages of 64 run at 0.80 of contiguous keys (0.95 is not reached)" in text
    assert "decode: pages of 16 run at 1.00 of contiguous keys (0.85 is reached)" in text
    assert "fp8 is 2.50 times as fast" in text and "15.0 times as fast as pages by request" in text
    assert "| decode | another | refused |" in text
