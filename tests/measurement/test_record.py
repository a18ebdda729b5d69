"""Laws of benches kept in a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from attenio.errors import InvalidInput
from attenio.measurement.bench import bench
from attenio.measurement.record import Record
from attenio.measurement.result import Roof
from attenio.report.bench_page import bench_figure, write_bench_page
from attenio.workload import Workload

SMALL = Workload(n=32, d=8, heads=2, dtype="fp32")
MADE = {"version": "0", "commit": "abc", "date": "2026-01-01"}


@pytest.fixture(autouse=True)
def a_known_roof(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attenio.measurement.bench._roof", lambda _like: Roof(flops_per_s=1e10, bytes_per_s=1e10))


def samples(found: Any) -> dict[str, tuple[float, ...]]:
    return {each.name: each.samples_ms for each in found.timings}


def test_what_a_killed_run_had_done_is_not_timed_again_and_the_rest_is(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    first = bench(SMALL, "cpu", repeats=2, record=Record(file, MADE))
    kept = json.loads(file.read_text())
    kept[0]["contenders"] = kept[0]["contenders"][:1]  # as if the run had been killed after the first
    file.write_text(json.dumps(kept))
    second = bench(SMALL, "cpu", repeats=3, record=Record(file, MADE))
    assert samples(second)["attenio"] == samples(first)["attenio"]
    assert all(len(taken) == 3 for name, taken in samples(second).items() if name != "attenio" and taken)
    assert [each["name"] for each in json.loads(file.read_text())[0]["contenders"]] == list(samples(first))


@pytest.mark.parametrize(
    ("workload", "made"),
    [(SMALL, {**MADE, "commit": "def"}), (Workload(n=16, d=8, heads=2, dtype="fp32"), MADE)],
)
def test_another_commit_and_another_workload_are_timed_anew_beside_it(
    tmp_path: Path, workload: Workload, made: dict[str, str]
) -> None:
    file = tmp_path / "bench.json"
    bench(SMALL, "cpu", repeats=1, record=Record(file, MADE))
    bench(workload, "cpu", repeats=1, record=Record(file, made))
    assert len(Record(file, MADE).benches) == 2


@pytest.mark.parametrize("content", ["[1]", "{}", "nothing", '[{"a": 1}]'])
def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    file = tmp_path / "notes.json"
    file.write_text(content)
    with pytest.raises(InvalidInput, match="holds no benches"):
        Record(file, MADE)
    assert file.read_text() == content


def test_a_device_is_not_read(tmp_path: Path) -> None:
    """Some have no end."""
    link = tmp_path / "zeros.json"
    link.symlink_to("/dev/zero")
    with pytest.raises(InvalidInput, match="holds no benches"):
        Record(link, MADE)


def test_a_page_shows_every_sample_of_every_bench(tmp_path: Path) -> None:
    record = Record(tmp_path / "bench.json", MADE)
    found = bench(SMALL, "cpu", repeats=2, record=record)
    figure = bench_figure(record.benches[0])
    assert {trace["y"][0]: tuple(trace["x"]) for trace in figure["data"]} == {
        name: taken for name, taken in samples(found).items() if taken
    }
    page = write_bench_page(tmp_path / "bench.html", record.benches).read_text(encoding="utf-8")
    assert 'id="bench-0"' in page and str(SMALL) in page and "sdpa math" in page
    with pytest.raises(InvalidInput, match=r"ending in \.html"):
        write_bench_page(tmp_path / "bench.png", record.benches)
