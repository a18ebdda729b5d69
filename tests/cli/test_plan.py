"""Laws of ``attenio plan``."""

from pathlib import Path
from typing import Any

import pytest

from attenio import Machine, Workload, best_plan
from attenio.planning import Dataflow

SMALL = ("--n", "300", "--d", "16", "--fast-bytes", "4KB")


def test_the_answer_has_every_documented_key(attenio: Any) -> None:
    found = attenio("plan", "--n", "131072", "--d", "64", "--machine", "attenio-512k", "--json").json
    assert {"workload", "machine", "plan", "lower_bounds", "gap", "candidates", "boundaries"} <= found.keys()
    assert {"dataflow", "tiles", "moved_words", "peak_words"} <= found["plan"].keys()
    for bound in found["lower_bounds"]:
        assert {"theorem", "words", "strength", "regime", "citation", "assumptions"} <= bound.keys()
    for candidate in found["candidates"]:
        assert {"dataflow", "tiles", "moved_words", "peak_words", "rule", "fits", "reason"} <= candidate.keys()
    assert found["machine"]["name"] == "attenio-512k"


def test_the_published_tiles_of_the_paper_s_own_machine_come_out(attenio: Any) -> None:
    found = attenio("plan", "--n", "128K", "--d", "64", "--json").json
    [published] = [
        candidate
        for candidate in found["candidates"]
        if (candidate["dataflow"], candidate["rule"]) == ("attenio", "published")
    ]
    assert published["tiles"] == {"query_tile": 1985, "key_tile": 1}
    assert published["moved_words"] == 2 * 131072 * 64 * (1 + -(-131072 // 1985))


def test_on_tensor_cores_tiles_are_of_whole_units_and_their_price_is_told(attenio: Any) -> None:
    asked = ("plan", "--n", "20000", "--d", "512", "--machine", "h100", "--batch", "2")
    found, free = attenio(*asked, "--json").json, attenio(*asked, "--free-tiles", "--json").json
    units, price = found["granularity"], found["granularity"]["more_than_free_tiles"]
    assert (units["rows"], units["keys"], free["granularity"]) == (64, 16, None)
    assert units["free_plan"] == free["plan"]
    assert price == found["plan"]["moved_words"] / free["plan"]["moved_words"] - 1
    assert found["boundaries"][0]["more_than_free_tiles"] > 0
    for part in found["boundaries"]:
        assert part["plan"]["tiles"]["query_tile"] % 64 == 0 or part["plan"]["tiles"]["query_tile"] == 20000
    assert f"{100 * price:.3g} %" in attenio(*asked).out
    step = attenio(*asked, "--direction", "training", "--json").json
    assert step["granularity"]["more_than_free_tiles"] >= 0


@pytest.mark.parametrize("mask", ["dense", "causal", "window:40", "documents:100,200"])
def test_no_candidate_beats_the_plan_and_nothing_beats_the_bound(attenio: Any, mask: str) -> None:
    found = attenio("plan", *SMALL, "--mask", mask, "--json").json
    floor = max(bound["words"] for bound in found["lower_bounds"] if bound["strength"] in ("absolute", "ordinary"))
    moved = [candidate["moved_words"] for candidate in found["candidates"] if candidate["fits"]]
    assert floor <= found["plan"]["moved_words"] == min(moved)
    assert found["gap"] == found["plan"]["moved_words"] / floor


def test_every_dataflow_is_a_candidate(attenio: Any) -> None:
    found = attenio("plan", *SMALL, "--heads", "4", "--kv-heads", "2", "--json").json
    assert {candidate["dataflow"] for candidate in found["candidates"]} == {
        dataflow.value for dataflow in Dataflow.towards("forward")
    }
    for candidate in found["candidates"]:
        assert candidate["fits"] or candidate["reason"]


@pytest.mark.parametrize("dataflow", ["standard", "FLAT", "flash-attention-2", "attenio", "square-tiling"])
def test_one_dataflow_can_be_asked_about(attenio: Any, dataflow: str) -> None:
    found = attenio("plan", *SMALL, "--dataflow", dataflow, "--json").json
    assert found["plan"]["dataflow"] == dataflow.lower()


def test_the_command_line_and_python_say_the_same(attenio: Any) -> None:
    found = attenio("plan", "--n", "1K", "--d", "32", "--mask", "causal", "--fast-bytes", "16KB", "--json").json
    plan = best_plan(Workload(n=1024, d=32, mask="causal"), Machine.with_fast_bytes(16384))
    assert found["plan"]["tiles"] == dict(plan.tiles)
    assert found["plan"]["moved_words"] == plan.moved_words


@pytest.mark.parametrize("machine", ["toy-three-levels", "h100"])
def test_every_boundary_of_a_deeper_machine_is_answered(attenio: Any, machine: str) -> None:
    found = attenio("plan", "--n", "512", "--d", "16", "--machine", machine, "--json").json
    assert len(found["boundaries"]) == 2
    for boundary in found["boundaries"]:
        assert boundary["nested_words"] >= boundary["bound_words"]


def test_tables_show_the_plan_and_the_gap(attenio: Any) -> None:
    said = attenio("plan", *SMALL)
    assert said.status == 0
    assert "attenio" in said.out
    assert "gap" in said.out
    assert said.err == ""


def test_a_machine_file_with_brackets_in_its_names_is_shown(attenio: Any, tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("name: '[/red]'\nlevels: [{name: '[a]', capacity_bytes: 4KB}, {name: '[/b]'}]\n")
    said = attenio("plan", "--n", "64", "--machine", file)
    assert said.status == 0
    assert "[/red]" in said.out


BAD_QUESTIONS = [
    (["--n", "0"], "n is 0"),
    (["--n", "-4"], "n is -4"),
    (["--n", "nan"], "n is 'nan'"),
    (["--n", ""], "n is ''"),
    (["--n", "1000000000000"], "n is 1,000,000,000,000"),
    (["--n", "1.5"], "n is '1.5'"),
    (["--keys", "inf"], "keys is 'inf'"),
    (["--d", "0"], "d is 0"),
    (["--value-dim", "-1"], "value-dim is -1"),
    (["--batch", "0"], "batch is 0"),
    (["--heads", "6", "--kv-heads", "4"], "6 query heads cannot share 4 KV heads"),
    (["--kv-heads", "4"], "1 query head cannot share 4 KV heads evenly; make kv-heads 1"),
    (["--n", "100", "--mask", "window:101"], "window 101 is wider than the 100 keys"),
    (["--mask", "casual"], "mask 'casual' is not known"),
    (["--mask", "block-sparse:gone.npy"], "layout file 'gone.npy' does not exist"),
    (["--dtype", "fp7"], "unknown element type 'fp7'"),
    (["--dtype", "fp32", "--accumulator", "fp16"], "accumulator fp16 is narrower"),
    (["--scale", "nan"], "scale is nan"),
    (["--machine", "h10"], "unknown machine 'h10'; did you mean h100?"),
    (["--machine", "gone.yaml"], "machine file 'gone.yaml' does not exist"),
    (["--fast-bytes", "0"], "fast-bytes is 0"),
    (["--fast-bytes", "-512KB"], "fast-bytes is -524,288"),
    (["--fast-bytes", "NaN"], "fast-bytes is 'NaN'"),
    (["--fast-bytes", "1"], "at least"),
    (["--fast-bytes", "64KB", "--machine", "h100"], "choose one"),
    (["--model", "gpt-5"], "unknown model 'gpt-5'"),
    (["--model", "gone/config.json"], "does not exist"),
    (["--decode", "--queries", "2"], "--decode asks about one query"),
]


@pytest.mark.parametrize("command", ["bounds", "plan", "run", "report"])
@pytest.mark.parametrize(("options", "message"), BAD_QUESTIONS)
def test_a_question_that_makes_no_sense_is_one_line(
    attenio: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in attenio(command, *options).mistake
    assert list(tmp_path.iterdir()) == []


def test_broken_yaml_is_named_with_its_line(attenio: Any, tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("name: x\nlevels:\n  - name: a\n    capacity_bytes: 4KB\n   - name: b\n")
    assert f"{file} line 5: " in attenio("plan", "--machine", file).mistake


def test_an_unknown_dataflow_lists_the_known_ones(attenio: Any) -> None:
    for command in ("plan", "run"):
        assert "unknown dataflow 'flash'; " in attenio(command, "--n", "64", "--dataflow", "flash").mistake


def test_a_layout_that_is_no_array_is_one_line_without_advice_to_load_it_unsafely(attenio: Any, tmp_path: Path) -> None:
    file = tmp_path / "junk.npy"
    file.write_bytes(bytes(range(128, 256)))
    message = attenio("plan", "--n", "64", "--mask", f"block-sparse:{file}:64").mistake
    assert "is not a NumPy array file; save one with numpy.save" in message
    assert "unsafe" not in message


@pytest.mark.parametrize(
    ("asked", "advice"),
    [
        (("plan", "--dataflow", "two-pass"), "or --direction backward"),
        (("plan", "--dataflow", "attenio", "--direction", "backward"), "or --direction forward"),
        (("simulate", "--direction", "training"), "set the direction to forward (--direction forward)"),
    ],
)
def test_a_dataflow_of_another_direction_is_answered_with_the_option(attenio, asked, advice):
    assert attenio(*asked, "--n", "1K").mistake.endswith(advice)


@pytest.mark.parametrize("command", ["plan", "bounds"])
def test_a_bound_is_printed_with_the_algorithms_that_it_covers(attenio: Any, command: str) -> None:
    said = " ".join(attenio(command, "--n", "8K", "--fast-bytes", "64KB").out.split())
    assert "adds up each score and each result from its own products (not Strassen's) and each row's sum" in said
    assert "with fast matrix products (Strassen's) or without" in said or "computes attention exactly" in said
    assert "Every algorithm" not in said
    decode = " ".join(attenio(command, "--n", "8K", "--decode", "--fast-bytes", "64KB").out.split())
    assert "any algorithm that computes attention exactly" in decode.lower()


def test_a_gap_says_against_which_bound_it_is(attenio: Any) -> None:
    found = attenio("plan", "--n", "8K", "--fast-bytes", "64KB", "--json").json
    words = {b["theorem"]: b["words"] for b in found["lower_bounds"]}
    moved = found["plan"]["moved_words"]
    assert (found["gap_strength"], found["gap"]) == ("ordinary", moved / words["row-sums"])
    assert found["absolute_gap"] == moved / max(words["compulsory"], words["fast-products"])
