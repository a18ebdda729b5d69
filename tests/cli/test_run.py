"""Laws of ``attenio run``."""

import json
from pathlib import Path
from typing import Any

import pytest

from attenio.cli import long_runs
from attenio.cli import run as run_command
from attenio.cli.run import tiles_from_text
from attenio.errors import InvalidInput
from attenio.machine import Machine
from attenio.planning import Dataflow, best_plan
from attenio.workload import Workload

SMALL = ("--n", "40", "--d", "6", "--heads", "2", "--kv-heads", "1", "--fast-bytes", "600")


@pytest.mark.parametrize("dataflow", [dataflow.value for dataflow in Dataflow.towards("forward")])
@pytest.mark.parametrize("mask", ["dense", "causal"])
def test_a_run_counts_exactly_what_its_plan_says(attenio: Any, dataflow: str, mask: str) -> None:
    found = attenio("run", *SMALL, "--mask", mask, "--dataflow", dataflow, "--json").json
    assert found["plan"]["dataflow"] == dataflow
    assert (found["moved_words"], found["peak_words"]) == (found["plan"]["moved_words"], found["plan"]["peak_words"])
    assert found["max_abs_error"] < 0.01
    assert {key: found["run"][key] for key in ("moved_words", "peak_words", "max_abs_error")} == {
        key: found[key] for key in ("moved_words", "peak_words", "max_abs_error")
    }
    assert found["run"]["seed"] == 0
    assert found["run"]["seconds"] > 0


def test_the_seed_makes_the_numbers(attenio: Any) -> None:
    errors = [attenio("run", *SMALL, "--seed", seed, "--json").json["max_abs_error"] for seed in (1, 1, 2)]
    assert errors[0] == errors[1] != errors[2]


def test_tiles_of_one_s_own_are_run(attenio: Any) -> None:
    arguments = ("run", *SMALL, "--dataflow", "attenio", "--tiles", "query_tile=5, key_tile=2")
    found = attenio(*arguments, "--json").json
    assert found["plan"]["tiles"] == {"query_tile": 5, "key_tile": 2}
    assert found["plan"]["rule"] == "given"
    assert found["moved_words"] == found["plan"]["moved_words"]
    assert found["gap"] >= 1
    assert "query_tile=5 key_tile=2" in attenio(*arguments).out


def test_all_levels_of_a_deeper_machine_are_counted(attenio: Any) -> None:
    found = attenio("run", "--n", "100", "--d", "8", "--machine", "toy-three-levels", "--json").json
    assert [part["boundary"] for part in found["nested_run"]["boundaries"]] == ["near-middle", "middle-far"]
    for counted, predicted in zip(found["nested_run"]["boundaries"], found["boundaries"], strict=True):
        assert counted["moved_words"] == counted["predicted_words"] == predicted["nested_words"]
    assert "near-middle" in attenio("run", "--n", "100", "--d", "8", "--machine", "toy-three-levels").out
    alone = attenio("run", "--n", "64", "--machine", "toy-three-levels", "--dataflow", "attenio", "--json").json
    assert "nested_run" not in alone


def test_a_trace_adds_up_to_the_words_moved(attenio: Any, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    found = attenio("run", *SMALL, "--trace", file, "--json").json
    events = [json.loads(line) for line in file.read_text().splitlines()]
    assert sum(event["words"] for event in events if event["kind"] in ("load", "store")) == found["moved_words"]
    assert {"load", "store", "compute", "reserve", "release"} == {event["kind"] for event in events}


def test_without_a_length_a_model_is_run_at_a_size_that_takes_seconds(attenio: Any) -> None:
    found = attenio("run", "--model", "vit-b-16", "--heads", "1", "--json").json
    assert found["workload"]["keys"] == 197
    one_level = ("--heads", "1", "--kv-heads", "1", "--dataflow", "flash-attention-2")
    found = attenio("run", "--model", "mistral-7b", *one_level, "--json").json
    assert (found["workload"]["keys"], found["workload"]["mask"]) == (1024, "causal")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tiles", "query_tile=4"], "name it with --dataflow"),
        (["--dataflow", "attenio", "--tiles", "query_tile"], "write name=size pairs"),
        (["--dataflow", "attenio", "--tiles", ""], "write name=size pairs"),
        (["--dataflow", "attenio", "--tiles", "query_tile=4,query_tile=5"], "query_tile is given twice"),
        (["--dataflow", "attenio", "--tiles", "query_tile=0,key_tile=1"], "query_tile is 0"),
        (["--dataflow", "attenio", "--tiles", "query_tile=x,key_tile=1"], "query_tile is 'x'"),
        (["--dataflow", "attenio", "--tiles", "query_tile=-2,key_tile=1"], "query_tile is -2"),
        (["--dataflow", "attenio", "--tiles", "query_tile=4"], "key_tile"),
        (["--dataflow", "attenio", "--tiles", "query_tile=4,key_tile=1,depth=3"], "depth"),
        (["--dataflow", "attenio", "--tiles", "query_tile=40,key_tile=40"], "needs "),
    ],
)
def test_a_run_that_cannot_be_is_one_line(attenio: Any, options: list[str], message: str) -> None:
    assert message in attenio("run", *SMALL, *options).mistake


def test_a_tile_larger_than_the_problem_is_refused(attenio: Any) -> None:
    options = ("--n", "40", "--fast-bytes", "60KB", "--dataflow", "attenio", "--tiles", "query_tile=41,key_tile=1")
    assert attenio("run", *options).mistake == "query_tile is 41, and the problem has 40 query rows; give at most 40"
    slots = ("--direction", "backward", "--mask", "causal", "--dataflow", "kept-row-gradients", "--fast-bytes", "60KB")
    said = attenio("run", "--n", "24", *slots, "--tiles", "first_keys=100,standing_rows=1")
    assert said.mistake == "first_keys is 100, and the problem has 24 keys; give at most 24"


def test_a_run_that_no_memory_of_this_computer_holds_is_one_line(attenio: Any) -> None:
    options = ("--n", "1G", "--heads", "1", "--kv-heads", "1", "--d", "64", "--fast-bytes", "600")
    assert "of this computer's memory" in attenio("run", *options).mistake


def test_a_place_that_cannot_be_written_is_refused_before_the_run(
    attenio: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_command, "_planned", None)
    assert "does not exist; create it first" in attenio("run", "--trace", tmp_path / "gone" / "t.jsonl").mistake
    assert "is a folder" in attenio("run", "--trace", tmp_path).mistake


def test_stopping_leaves_no_file_and_keeps_the_old_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, attenio: Any
) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text("old")

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", stopped)
    said = attenio("run", *SMALL, "--trace", file)
    assert (said.status, said.out) == (130, "")
    assert said.err == "attenio: stopped; no file was left half-written\n"
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_tiles_are_read_in_order() -> None:
    assert list(tiles_from_text("b=2K,a=1").items()) == [("b", 2048), ("a", 1)]
    with pytest.raises(InvalidInput, match="write name=size pairs"):
        tiles_from_text("=4")


def test_a_run_that_takes_long_says_so_before_it_begins(attenio: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert attenio("run", "--n", "64", "--d", "8").err == ""
    monkeypatch.setattr(long_runs, "_LONG_SECONDS", 1e-4)
    for direction in ("forward", "training"):
        said = attenio("run", "--n", "64", "--d", "8", "--direction", direction)
        assert (said.status, said.err.count("\n")) == (0, 1)
        assert "running n=64 d=8" in said.err and "about 1 minute; Ctrl-C stops it, nothing is kept" in said.err


def test_five_words_of_memory_take_hours_though_the_operations_take_a_second(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long_runs.warn_of_long_run(best_plan(Workload(n=2048, d=64), Machine.with_fast_bytes(10)))
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert "735,571,968 words and 1,073,741,824 operations, about 4 hours; Ctrl-C" in said.err
    assert "a larger fast memory" in said.err


@pytest.mark.parametrize("command", ["run", "plan", "bounds"])
def test_what_a_model_notes_is_under_the_table_and_in_the_json(attenio: Any, command: str) -> None:
    options = ("--model", "deepseek-v3", "--decode", "--n", "32")
    assert "deepseek-v3 decode: values are the first 512" in attenio(command, *options).out
    assert len(attenio(command, *options, "--json").json["notes"]) == 1
    assert attenio(command, "--n", "32", "--json").json["notes"] == []


def test_a_scale_that_overflows_is_refused_in_a_line(attenio):
    for direction in ("forward", "backward", "training"):
        said = attenio("run", "--n", "64", "--scale", "1e308", "--direction", direction, "--json")
        assert "scale is 1e+308, which makes scores overflow; use a size of at most 1" in said.mistake


def test_the_tiles_of_a_dataflow_are_listed(attenio):
    said = attenio("run", "--dataflow", "flat", "--tiles", "list")
    assert (said.status, said.out) == (0, "query_tile\nquery_tile, resident_keys\n")
    found = attenio("run", "--dataflow", "feature-gradient", "--tiles", "list", "--json").json
    assert found["tiles"] == [["degree", "resident_states"], ["degree", "resident_states", "saved_state"]]
    assert "name it with --dataflow" in attenio("run", "--tiles", "list").mistake
