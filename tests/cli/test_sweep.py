"""Laws of ``attenio sweep``."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from attenio import Machine, Workload, best_plan
from attenio.catalogue import machine_named, model_named
from attenio.cli.question import Question
from attenio.cli.sweep import grid_of
from attenio.masks import Causal, Dense, Documents, SharedPrefix, SlidingWindow

SMALL = ("--n", "100,200", "--d", "8,16", "--mask", "dense,causal", "--fast-bytes", "1KB:4KB:x2")


def test_every_combination_is_planned_as_it_would_be_alone(attenio: Any) -> None:
    found = attenio("sweep", *SMALL, "--json").json
    assert found["points"] == found["planned"] == len(found["rows"]) == 2 * 2 * 2 * 3
    for row in found["rows"]:
        workload = Workload(n=row["keys"], d=row["d"], mask=row["mask"])
        plan = best_plan(workload, Machine.with_fast_bytes(2 * row["fast_words"]))
        assert (row["dataflow"], row["moved_words"]) == (plan.dataflow.value, plan.moved_words)


def test_a_sweep_of_gradients_plans_gradients(attenio: Any) -> None:
    options = ("--n", "64", "--d", "8", "--fast-bytes", "2KB", "--direction", "backward")
    (row,) = attenio("sweep", *options, "--json").json["rows"]
    plan = best_plan(Workload(n=64, d=8, direction="backward"), Machine.with_fast_bytes(2048))
    assert (row["dataflow"], row["moved_words"]) == (plan.dataflow.value, plan.moved_words)


def test_a_sweep_and_a_plan_say_the_same_of_a_model(attenio: Any) -> None:
    options = ("--model", "llama-3-70b", "--decode", "--machine", "a100")
    [row] = attenio("sweep", *options, "--n", "4K", "--json").json["rows"]
    plan = attenio("plan", *options, "--n", "4K", "--json").json["plan"]
    assert (row["dataflow"], row["moved_words"]) == (plan["dataflow"], plan["moved_words"])


def test_without_options_lengths_are_swept_on_the_default_machine() -> None:
    grid = grid_of(Question())
    assert grid.n == tuple(2**power for power in range(10, 21))
    assert grid.computers == (machine_named("attenio-512k"),)


@pytest.mark.parametrize(
    ("question", "lengths"),
    [
        (Question(n="2,3"), {(2, 2), (3, 3)}),
        (Question(keys="2,3"), {(2, 2), (3, 3)}),
        (Question(n="5", keys="2,3"), {(5, 2), (5, 3)}),
        (Question(queries="2,3", keys="5"), {(2, 5), (3, 5)}),
        (Question(queries="2,3", n="5"), {(2, 5), (3, 5)}),
        (Question(decode=True, n="5,6"), {(1, 5), (1, 6)}),
        (Question(decode=True, queries="1", keys="5"), {(1, 5)}),
    ],
)
def test_lengths_combine_as_they_do_for_one_plan(question: Question, lengths: set[tuple[int, int]]) -> None:
    assert set(grid_of(question).lengths) == lengths


def test_lists_of_names_are_split_at_names() -> None:
    grid = grid_of(
        Question(n="12", mask="dense, causal,window:4,documents:5,7,prefix:3", dtype="fp16,bf16", machine="h100,a100")
    )
    assert grid.masks == (Dense(), Causal(), SlidingWindow(width=4), Documents(lengths=(5, 7)), SharedPrefix(length=3))
    assert [dtype.value for dtype in grid.dtypes] == ["fp16", "bf16"]
    assert [machine.name for machine in grid.computers] == ["h100", "a100"]


@pytest.mark.parametrize("name", ["llama-3-8b", "gemma-7b", "deepseek-v3", "vit-b-16", "mistral-7b"])
@pytest.mark.parametrize("decode", [False, True])
def test_a_model_fills_in_what_is_not_swept(name: str, decode: bool) -> None:
    grid = grid_of(Question(model=name, n="8K", decode=decode))
    expected = model_named(name).workload(n=8192, decode=decode)
    found = grid.workload(0)
    assert (found.heads, found.kv_heads, found.d, found.value_dim) == (
        expected.heads,
        expected.kv_heads,
        expected.d,
        expected.value_dim,
    )
    assert (found.mask, found.dtype, found.queries) == (expected.mask, expected.dtype, expected.queries)
    assert found.values_in_keys == expected.values_in_keys == (decode and name == "deepseek-v3")


def test_machines_and_memories_are_swept_one_after_the_other() -> None:
    grid = grid_of(Question(machine="h100", fast_bytes="1KB,2KB"))
    assert [machine.levels[-2].capacity_bytes for machine in grid.computers] == [50 * 2**20, 1024, 2048]


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl", "parquet"])
def test_a_file_has_the_same_points(attenio: Any, tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"points.{ending}"
    said = attenio("sweep", *SMALL, "--out", file, "--json").json
    assert "rows" not in said
    assert said["out"] == str(file)
    rows = attenio("sweep", *SMALL, "--json").json["rows"]
    if ending == "parquet":
        moved = parquet.read_table(file).column("moved_words").to_pylist()
    elif ending == "csv":
        with file.open(newline="") as stream:
            moved = [int(row["moved_words"]) for row in csv.DictReader(stream)]
    else:
        text = file.read_text()
        found = json.loads(text) if ending == "json" else [json.loads(line) for line in text.splitlines()]
        moved = [row["moved_words"] for row in found]
    assert moved == [row["moved_words"] for row in rows]
    assert list(tmp_path.iterdir()) == [file]


def test_small_sweeps_are_shown_point_by_point_and_large_ones_in_sum(attenio: Any, tmp_path: Path) -> None:
    small = attenio("sweep", "--n", "100,200", "--fast-bytes", "1KB").out
    assert "100" in small
    assert "2 of 2 points have a plan" in small
    large = attenio("sweep", "--n", "100:200:+1", "--fast-bytes", "1KB", "--out", tmp_path / "points.csv").out
    assert "101 of 101 points have a plan" in large
    assert large.count("\n") < 12
    assert "points.csv" in large


def test_points_that_make_no_sense_have_a_reason(attenio: Any) -> None:
    options = ("--n", "100", "--heads", "4", "--kv-heads", "2,3", "--fast-bytes", "1KB")
    found = attenio("sweep", *options, "--json").json
    assert (found["points"], found["planned"]) == (2, 1)
    [reason] = found["reasons"]
    assert "4 query heads cannot share 3 KV heads" in reason
    assert "1 without: 4 query heads cannot share 3 KV heads" in attenio("sweep", *options).out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--n", "1K:"], "n '1K:' is not a range"),
        (["--n", "0"], "n is 0"),
        (["--n", "1,000"], "a comma separates values in a sweep; write 1000 or 1_000 for one number"),
        (["--n", "131,072"], "n '131,072' has the value 072: a comma separates"),
        (["--n", "1K,0"], "n is 0; it must be at least 1"),
        (["--n", "5", "--queries", "3", "--keys", "4"], "--n sets both lengths"),
        (["--n", "nan"], "n is 'nan'"),
        (["--n", ""], "n is ''"),
        (["--n", "1000000000000"], "n is 1,000,000,000,000"),
        (["--n", "4K:1K:x2"], "goes from 4,096 to 1,024"),
        (["--d", "8,,9"], "d '8,,9' has a comma without"),
        (["--fast-bytes", "1KB:2KB"], "is not a range"),
        (["--machine", "h10"], "did you mean h100?"),
        (["--machine", "h100,"], "machine 'h100,' has a comma without a value"),
        (["--mask", "dense,casual"], "mask 'casual' is not known"),
        (["--direction", "sideways"], "unknown direction 'sideways'"),
        (["--dtype", "fp16,fp7"], "unknown element type 'fp7'"),
        (["--model", "lama-3-8b"], "did you mean llama-3-8b?"),
        (["--scale", "2"], "leave it out of a sweep"),
        (["--cluster", "local"], "cluster 'local' is neither local:N"),
        (["--cluster", "local:2", "--devices", "8"], "takes no --cluster; leave one of them out"),
        (["--decode", "--queries", "1,2"], "--decode asks about one query"),
        (["--n", "1K", "--heads", "6", "--kv-heads", "4"], "6 query heads cannot share 4 KV heads"),
        (["--n", "1K,2K", "--mask", "window:4096"], "window 4,096 is wider than the 1,024 keys"),
        (["--out", "points.xlsx"], ".parquet, .csv, .json or .jsonl"),
        (["--out", "gone/points.csv"], "folder gone does not exist"),
        (["--out", "."], "is a folder"),
        (["--out", ""], "the output has no name"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_one_line(
    attenio: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in attenio("sweep", *options).mistake
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_sweep_goes_on_when_asked_again(
    attenio: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attenio.planning.sweeping import run as sweeping

    monkeypatch.setattr(sweeping, "_CHUNK", 10)
    real, calls = sweeping.plan_points, []

    def stopped_in_the_second_chunk(points: Any) -> Any:
        calls.append(points)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(points)

    monkeypatch.setattr(sweeping, "plan_points", stopped_in_the_second_chunk)
    file = tmp_path / "points.json"
    said = attenio("sweep", *SMALL, "--out", file)
    assert (said.status, said.out) == (130, "")
    assert "the same command goes on from here" in said.err
    assert not file.exists()
    again = attenio("sweep", *SMALL, "--out", file, "--json")
    assert "1 finished chunk of this sweep; going on" in again.err
    assert again.json["notes"]
    assert len(calls) == 2 + 2  # 24 points are three chunks, and the first was kept
    assert list(tmp_path.iterdir()) == [file]
    assert json.loads(file.read_text()) == attenio("sweep", *SMALL, "--json").json["rows"]


def test_what_another_sweep_left_is_not_discarded(attenio: Any, tmp_path: Path) -> None:
    parts = tmp_path / "points.json.parts"
    parts.mkdir()
    (parts / "000000.npz").write_bytes(b"kept")
    mistake = attenio("sweep", *SMALL, "--out", tmp_path / "points.json").mistake
    assert f"{parts} has 1 finished chunk of an unfinished sweep of another grid; choose another file" in mistake
    assert [(path.name, path.read_bytes()) for path in parts.iterdir()] == [("000000.npz", b"kept")]


@pytest.mark.parametrize("more", [(), ("--devices", "2"), ("--page-size", "16")])
def test_a_finished_file_is_not_overwritten(attenio: Any, tmp_path: Path, more: tuple[str, ...]) -> None:
    file = tmp_path / "points.csv"
    file.write_text("of another grid")
    said = attenio("sweep", "--keys", "64", *more, "--out", file).mistake
    assert f"{file} is there already; choose another file, or delete it to plan anew" in said
    assert file.read_text() == "of another grid"


def test_a_long_sweep_says_what_it_will_take(attenio: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attenio.planning.sweeping.run._CHUNK", 10)
    assert attenio("sweep", *SMALL).err == ""
    monkeypatch.setattr("attenio.planning.sweeping.estimate.LONG_SECONDS", 0.0)
    assert "planning 24 points: about 1 minute more, " in attenio("sweep", *SMALL).err
    said = attenio("sweep", *SMALL, "--out", tmp_path / "points.csv").err
    assert said.count("\n") == 1
    assert f" in {tmp_path / 'points.csv'}; Ctrl-C stops it, the same sweep goes on from there" in said
