"""Laws of ``attenio certify``."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    draw = np.random.default_rng(0)
    paths = [tmp_path / f"{name}.npy" for name in "qkv"]
    for path, heads in zip(paths, (4, 2, 2), strict=True):
        np.save(path, draw.uniform(-0.5, 0.5, (heads, 128, 8)).astype(np.float16))
    return paths


def test_the_table_has_a_row_for_every_head(attenio: Any, files: list[Path]) -> None:
    said = attenio("certify", *files)
    assert said.status == 0
    assert "2 of 2 heads may be approximated" in said.out
    assert said.out.count("approximate\n") == 2


def test_what_is_measured_is_at_most_what_is_guaranteed(attenio: Any, files: list[Path]) -> None:
    answer = attenio("certify", *files, "--json", "--causal", "--tolerance", "5e-3").json
    assert answer["causal"] is True
    for head in answer["heads"]:
        assert 0 < head["measured_error"] <= head["guaranteed_error"]
        assert head["degree"] == head["needed_degree"]


def test_the_tolerance_is_about_what_approximating_adds_and_the_answer_says_so(attenio: Any, files: list[Path]) -> None:
    assert "tolerance is about what approximating adds" in attenio("certify", *files).out
    for head in attenio("certify", *files, "--json", "--tolerance", "1e-3").json["heads"]:
        assert head["added_error"] == head["truncation_error"] + head["rounding_error"] <= 1e-3
        assert head["guaranteed_error"] == head["added_error"] + head["storage_error"]


def test_nothing_is_guaranteed_where_exact_attention_is_the_answer(attenio: Any, files: list[Path]) -> None:
    for head in attenio("certify", *files, "--scale", "2", "--json").json["heads"]:
        assert head["guaranteed_error"] is None


def test_heads_that_need_too_much_say_which_degree(attenio: Any, files: list[Path]) -> None:
    for head in attenio("certify", *files, "--scale", "2", "--json").json["heads"]:
        assert head["verdict"] == "exact"
        assert f"degree {head['needed_degree']} would do, but it takes" in head["reason"]


def test_nothing_is_measured_where_nobody_asks(attenio: Any, files: list[Path]) -> None:
    for head in attenio("certify", *files, "--no-measure", "--json").json["heads"]:
        assert head["measured_error"] is None


@pytest.mark.parametrize("tolerance", ["0", "-1", "nan", "inf", "much"])
def test_a_tolerance_that_is_none_is_one_line(attenio: Any, files: list[Path], tolerance: str) -> None:
    assert "tolerance is" in attenio("certify", *files, f"--tolerance={tolerance}").mistake


def test_data_that_are_not_finite_are_one_line(attenio: Any, files: list[Path]) -> None:
    broken = np.load(files[1])
    broken[0, 5, 3] = np.nan
    np.save(files[1], broken)
    assert "key has 1 entries that are not finite, the first at (0, 0, 5, 3)" in attenio("certify", *files).mistake


def test_other_mistakes_are_one_line(attenio: Any, files: list[Path]) -> None:
    for arguments, said in (
        (["none.npz"], "does not exist"),
        ([*files, "--kind", "spline"], "taylor, minimax"),
        ([*files, "--scale", "wide"], "scale is 'wide'; give a number such as 0.125"),
        ([*files, "--scale", "-1e308"], "scale is -1e+308, which is too large for fp32"),
        ([*files, "--centring", "median"], "best"),
        ([*files, "--most-features", "few"], "most features is"),
        ([*files, "--most-features=0"], "at least 1"),
        ([*files, "--fast-bytes=-4"], "at least 0"),
        (files[:2], "2 files given"),
    ):
        assert said in attenio("certify", *arguments).mistake


def test_one_query_on_one_key_has_a_verdict_however_large_the_score(attenio: Any, tmp_path: Path) -> None:
    for name, entry in (("q", 40.0), ("k", 40.0), ("v", 1.0)):
        np.save(tmp_path / f"{name}.npy", np.full((1, 1), entry, dtype=np.float32))
    files = [tmp_path / f"{name}.npy" for name in "qkv"]
    for centring in ("best", "none", "mean", "middle", "fitted"):
        (head,) = attenio("certify", *files, "--centring", centring, "--json").json["heads"]
        # a key that is centred on itself has a score of 0
        assert head["verdict"] in ("exact", "approximate")
        if centring == "none":
            assert head["verdict"] == "exact"
            assert "the mean of the values would do" in head["reason"]


def test_tables_keep_to_the_columns_and_say_their_units(
    attenio: Any, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = attenio("certify", *files).out
    assert [line for line in said.splitlines() if len(line) > 80] == []
    assert "(½ range)" in said


def test_entries_without_measure_are_told_in_words(attenio: Any, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    paths = [tmp_path / f"{name}.npy" for name in "qkv"]
    for path, size in zip(paths, (1e15, 1e15, 1.0), strict=True):
        np.save(path, (size * draw.standard_normal((16, 8))).astype(np.float32))
    (head,) = attenio("certify", *paths, "--json").json["heads"]
    reason = "scores reach about 10^30, over the most of 24; a Taylor polynomial would take a degree over a million"
    assert head["reason"] == reason
