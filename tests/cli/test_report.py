"""Laws of ``attenio report``."""

from pathlib import Path
from typing import Any

QUESTION = ("--n", "512", "--d", "16", "--fast-bytes", "8KB")


def test_a_report_is_a_page_and_the_plan(attenio: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    found = attenio("report", *QUESTION, "--out", page, "--json").json
    assert found["report"] == str(page)
    assert found["plan"] == attenio("plan", *QUESTION, "--json").json["plan"]
    assert page.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html>")
    said = attenio("report", *QUESTION, "--out", page)
    assert said.status == 0
    assert str(page) in said.out
    assert list(tmp_path.iterdir()) == [page]


def test_a_place_that_cannot_be_written_is_one_line(attenio: Any, tmp_path: Path) -> None:
    assert "is a folder" in attenio("report", "--out", tmp_path).mistake
    assert "report writes HTML" in attenio("report", "--out", tmp_path / "page.txt").mistake
    assert "does not exist" in attenio("report", "--out", tmp_path / "gone" / "page.html").mistake
