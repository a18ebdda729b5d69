import csv
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

from attenio.errors import InvalidInput, MissingExtra
from attenio.planning import SweepGrid, sweep
from attenio.planning.sweeping import run
from attenio.planning.sweeping.estimate import estimate
from attenio.planning.sweeping.files import FinishedChunks
from attenio.planning.sweeping.points import Points
from attenio.planning.sweeping.result import PlannedPoints
from attenio.workload import Direction

GRID = SweepGrid(n=[8, 64, 200], d=[4, 16], masks=["dense", "causal"], heads=[4], kv_heads=[1, 3], fast_bytes=[4, 600])
OTHER = SweepGrid(n=[8, 64, 200], d=[4, 16], masks=["dense", "causal"], heads=[4], kv_heads=[1, 3], fast_bytes=[4, 700])


@pytest.fixture(scope="module")
def planned() -> dict[tuple[str, int, int], PlannedPoints]:
    """Files are tried here, not plans: the same points are planned once."""
    return {}


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch, planned: dict[tuple[str, int, int], PlannedPoints]) -> None:
    plan_points = run.plan_points

    def remembered(points: Points) -> PlannedPoints:
        key = repr(points.grid), points.start, points.stop
        if key not in planned:
            planned[key] = plan_points(points)
        return planned[key]

    monkeypatch.setattr(run, "plan_points", remembered)
    monkeypatch.setattr(run, "_CHUNK", 5)


class Stopped(Exception):
    pass


def stop_after(points: int):
    def progress(done: int, total: int) -> None:
        if done >= points:
            raise Stopped

    return progress


@pytest.mark.parametrize("direction", ["forward", "training"])
@pytest.mark.parametrize("name", ["out.json", "out.jsonl", "out.csv", "out.parquet"])
def test_files_hold_every_row_and_leave_nothing_else_behind(tmp_path: Path, name: str, direction: str) -> None:
    rows = list(sweep(replace(GRID, direction=direction), out=tmp_path / name).rows())
    assert [path.name for path in tmp_path.iterdir()] == [name]
    text = "" if name.endswith("parquet") else (tmp_path / name).read_text(encoding="utf-8")
    match name.partition(".")[2]:
        case "json":
            found = json.loads(text)
        case "jsonl":
            found = [json.loads(line) for line in text.splitlines()]
        case "csv":
            found = list(csv.DictReader(text.splitlines()))
            rows = [{key: "" if value is None else str(value) for key, value in row.items()} for row in rows]
        case _:
            found = parquet.read_table(tmp_path / name).to_pylist()
    assert found == rows


@pytest.mark.parametrize("name", ["out.json", "out.csv", "out.parquet"])
def test_files_written_a_few_points_at_a_time_hold_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    whole = sweep(GRID, out=tmp_path / f"whole-{name}")
    monkeypatch.setattr("attenio.planning.sweeping.result._BLOCK_POINTS", 12)
    parts = sweep(GRID, out=tmp_path / name)
    assert [len(block["reason"]) for block in parts.blocks()] == [15, 15, 15, 3]
    assert list(parts.rows()) == list(whole.rows())
    if name.endswith("parquet"):
        assert parquet.ParquetFile(tmp_path / name).num_row_groups == 4
        assert parquet.read_table(tmp_path / name).to_pylist() == list(whole.rows())
    else:
        assert (tmp_path / name).read_bytes() == (tmp_path / f"whole-{name}").read_bytes()


def test_chunks_are_kept_in_narrow_integers_and_columns_have_64_bits() -> None:
    result = sweep(GRID)
    assert {values.dtype.itemsize for chunk in result.chunks for values in chunk.numbers.values()} <= {1, 2, 4}
    assert {values.dtype.itemsize for values in result.columns.values() if values.dtype.kind == "i"} == {8}
    edges = np.array([-(2**63), 2**63 - 1, 127, 128, -128, -129, 0])
    for edge in edges:
        again = PlannedPoints({"x": np.array([edge])}, np.array([-1]), ()).narrowed()
        assert again.numbers["x"].tolist() == [edge]


@pytest.mark.parametrize("direction", list(Direction))
def test_a_stopped_sweep_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direction: Direction
) -> None:
    out, grid = tmp_path / "out.csv", replace(GRID, direction=direction)
    with pytest.raises(Stopped):
        sweep(grid, out=out, progress=stop_after(14))
    assert not out.exists()
    planned: list[int] = []
    plan_points = run.plan_points
    monkeypatch.setattr(run, "plan_points", lambda points: planned.append(points.start) or plan_points(points))
    result = sweep(grid, out=out)
    assert planned == list(range(15, len(grid), 5))
    assert result.notes == (f"{tmp_path / 'out.csv.parts'} has 3 finished chunks of this sweep; going on from there",)
    assert list(result.rows()) == list(sweep(grid).rows())
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_chunks_of_another_grid_are_neither_used_nor_lost(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    with pytest.raises(Stopped):
        sweep(GRID, out=out, progress=stop_after(14))
    with pytest.raises(InvalidInput, match=r"out.csv.parts has 3 finished chunks .* choose another file, or delete"):
        sweep(OTHER, out=out)
    assert "3 finished chunks of this sweep" in sweep(GRID, out=out).notes[0]


def test_a_sweep_of_which_no_chunk_was_finished_is_in_nobody_s_way(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    FinishedChunks.beside(out, GRID, 5)
    assert list(sweep(OTHER, out=out).rows()) == list(sweep(OTHER).rows())


@pytest.mark.parametrize("direction", ["forward", "training"])
@pytest.mark.parametrize("name", ["out.json", "out.jsonl", "out.csv"])
def test_the_size_of_a_file_is_told_to_a_factor_of_two(tmp_path: Path, name: str, direction: str) -> None:
    grid = SweepGrid(n=range(1000, 1020), d=[64, 128], fast_bytes=[65536], direction=direction)
    result = sweep(grid, out=tmp_path / name)
    told = estimate(len(grid), len(grid), 1.0, result.chunks[0], tmp_path / name)
    size, unit = re.search(r" and ([\d.]+) (KiB|MiB) in ", told).groups()
    assert 0.5 < float(size) * {"KiB": 2**10, "MiB": 2**20}[unit] / (tmp_path / name).stat().st_size < 2.0


def test_damaged_chunks_are_planned_again(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    with pytest.raises(Stopped):
        sweep(GRID, out=out, progress=stop_after(14))
    (tmp_path / "out.csv.parts" / "000001.npz").write_bytes(b"PK not an archive")
    (tmp_path / "out.csv.parts" / "000002.npz").write_bytes(b"")
    assert list(sweep(GRID, out=out).rows()) == list(sweep(GRID).rows())


def test_an_old_output_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with pytest.raises(Stopped):
        sweep(GRID, out=out, progress=stop_after(14))
    out.write_text("old")
    with pytest.raises(Stopped):
        sweep(GRID, out=out, progress=stop_after(20))
    assert out.read_text() == "old"
    sweep(GRID, out=out)
    assert len(json.loads(out.read_text())) == len(GRID)


def test_a_finished_file_is_not_written_over_and_an_empty_one_is(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    out.touch()
    sweep(GRID, out=out)
    before = out.read_bytes()
    for grid in (GRID, OTHER):
        with pytest.raises(InvalidInput, match=r"out\.json is there already; choose another file, or delete it"):
            sweep(grid, out=out, progress=stop_after(0))
    assert out.read_bytes() == before and not (tmp_path / "out.json.parts").exists()


def test_a_link_keeps_pointing_where_it_pointed(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    link, target = tmp_path / "link.json", tmp_path / "below" / "out.json"
    link.symlink_to(target)
    sweep(GRID, out=link)
    assert link.is_symlink() and len(json.loads(target.read_text())) == len(GRID)


def test_an_output_without_room_for_parts_beside_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(InvalidInput, match=r"cannot write .*out\.csv: .*No such file or directory.*another place"):
        sweep(GRID, out=tmp_path / "out.csv")


def test_outputs_that_cannot_be_written_are_refused_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"ends in \.txt; use \.parquet, \.csv, \.json or \.jsonl"):
        sweep(GRID, out=tmp_path / "out.txt", progress=stop_after(0))
    with pytest.raises(InvalidInput, match=r"folder .*missing does not exist; create it first"):
        sweep(GRID, out=tmp_path / "missing" / "out.csv", progress=stop_after(0))
    link = tmp_path / "link.csv"
    for to, said in ((tmp_path / "missing" / "out.csv", "missing does not exist"), ("/dev/null", "no plain file")):
        link.unlink(missing_ok=True)
        link.symlink_to(to)
        with pytest.raises(InvalidInput, match=said):
            sweep(GRID, out=link, progress=stop_after(0))
    assert not (tmp_path / "link.csv.parts").exists()


def test_parquet_without_its_extra_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match=r"writing Parquet needs the 'parquet' extra"):
        sweep(GRID, out=tmp_path / "out.parquet")
