"""Laws of ``attenio simulate``."""

import json
from pathlib import Path
from typing import Any

import pytest


def test_the_answer_has_the_documented_names(attenio: Any) -> None:
    found = attenio("simulate", "--n", "8K", "--d", "64", "--machine", "attenio-512k", "--json").json
    names = "cycles pe_utilisation exp_utilisation stall_fraction moved_words energy_joules idle"
    assert set(names.split()) <= set(found)
    assert found["cycles"] > 0
    assert "EXP unit" in found["idle"]["PE array"]


def test_event_by_event_is_the_same_answer(attenio: Any) -> None:
    asked = ("simulate", "--n", "300", "--d", "16", "--mask", "causal", "--machine", "attenio-64k", "--json")
    assert attenio(*asked).json == attenio(*asked, "--events").json


def test_switching_overlaps_off_takes_longer(attenio: Any) -> None:
    asked = ("simulate", "--n", "4K", "--d", "64", "--json")
    cycles = [attenio(*asked, *more).json["cycles"] for more in ((), ("--overlaps", "keys"), ("--overlaps", "none"))]
    assert cycles == sorted(cycles)
    assert attenio(*asked, "--softmax", "rows").json["cycles"] > cycles[0]


def test_a_trace_that_leaves_steps_out_says_so(attenio: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = ("simulate", "--n", "128", "--d", "16", "--trace", tmp_path / "timeline.json", "--json")
    whole = attenio(*call)
    assert whole.json["trace_steps_left_out"] == 0 and not whole.err
    monkeypatch.setattr("attenio.cli.simulate._MOST_STEPS", 100)
    cut = attenio(*call)
    left_out = whole.json["steps"] - 100
    assert cut.json["trace_steps_left_out"] == left_out
    assert f"without the last {left_out:,}" in cut.err
    written = json.loads((tmp_path / "timeline.json").read_text(encoding="utf-8"))
    assert written["otherData"]["steps_left_out"] == left_out


def test_a_trace_opens_as_chrome_events(attenio: Any, tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    attenio("simulate", "--n", "128", "--d", "16", "--trace", str(path))
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "C"}


def test_numbers_are_computed_and_their_error_stated(attenio: Any) -> None:
    asked = ("simulate", "--n", "24", "--d", "8", "--heads", "2", "--mask", "causal", "--compute", "table")
    found = attenio(*asked, "--json").json
    assert 0 < found["max_abs_error"] < found["error_bound"]
    assert "computed in fp16, table exponentials: largest error against float64" in attenio(*asked).out


@pytest.mark.parametrize("name", ["timeline.svg", "timeline.html"])
def test_a_picture_is_drawn_where_it_is_wanted(attenio: Any, tmp_path: Path, name: str) -> None:
    said = attenio("simulate", "--n", "128", "--d", "16", "--picture", tmp_path / name, "--picture-cycles", "0:500")
    assert said.status == 0
    assert "waits for EXP unit" in (tmp_path / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--picture", "timeline.png"), "picture timeline.png is neither .svg nor .html"),
        (("--picture-cycles", "0:10"), "name its file with --picture"),
        (("--picture", "timeline.svg", "--picture-cycles", "10:5"), "write first:last, such as 0:5000"),
        (
            ("--picture", "timeline.svg", "--picture-cycles", "1e299:1e300"),
            "cycles about 10^299 to about 10^300 have no",
        ),
        (("--refresh", "never"), "unknown refresh times 'never'; choose one of together, by-channel"),
        (("--overlaps", "nothing"), "unknown overlap 'nothing'; did you mean none? choose any of values"),
        (("--compute", "magic"), "unknown exponentials 'magic'; choose one of table, linear, rounded"),
        (("--overlaps", "nne"), "unknown overlap 'nne'; did you mean none?"),
        (("--overlaps", ""), "unknown overlap ''; choose any of values"),
        (("--softmax", "row"), "unknown softmax 'row'; did you mean rows? choose parallel or rows"),
        (("--compute", "tabel"), "unknown exponentials 'tabel'; did you mean table? choose one of table"),
        (("--softmax", "fast"), "unknown softmax 'fast'; choose parallel or rows"),
        (("--machine", "h100"), "machine h100 has no accelerator"),
        (("--dataflow", "square-tiling"), "square-tiling has no program on the accelerator"),
        (("--dtype", "fp32"), "works on words of 16 bits"),
        (("--accumulator", "fp32"), "fp16 and fp32 sums: leave the accumulator out"),
        (("--dataflow", "flat", "--overlaps", "none"), "flat has no overlaps and no parallel softmax to switch"),
        (("--direction", "backward", "--softmax", "rows"), "leave --softmax out, or use one of attenio"),
        (("--trace", "timeline.svg", "--picture", "timeline.svg"), "would both be timeline.svg; give each its own"),
    ],
)
def test_a_mistake_is_one_line(attenio: Any, options: tuple[str, ...], line: str) -> None:
    assert line in attenio("simulate", "--n", "128", *options).mistake


@pytest.mark.parametrize(
    "more",
    [
        ("--picture", "timeline.svg", "--picture-cycles", "1G:2G"),
        ("--refresh", "together", "--n", "128K"),
        ("--compute", "table", "--dtype", "bf16"),
    ],
)
def test_what_is_refused_leaves_no_file_behind(
    attenio: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert attenio("simulate", "--n", "64", "--trace", "timeline.json", *more).mistake
    assert not list(tmp_path.iterdir())


def test_only_dataflows_with_overlaps_say_which_are_on(attenio: Any) -> None:
    asked = ("simulate", "--n", "64", "--d", "16", "--json")
    assert attenio(*asked, "--overlaps", "keys").json["switches"]["overlap_values"] is False
    assert attenio(*asked, "--dataflow", "flat").json["switches"] is None


def test_the_error_of_real_numbers_is_stated(attenio: Any) -> None:
    asked = ("simulate", "--n", "64", "--d", "16")
    assert attenio(*asked, "--compute", "rounded", "--json").json["max_abs_error"] < 0.01
    assert "largest error" in attenio(*asked, "--compute", "linear").out


@pytest.mark.parametrize("options", [("--dataflow", "standard"), ("--direction", "backward", "--mask", "causal")])
def test_standard_attention_and_gradients_are_computed_too(attenio: Any, options: tuple[str, ...]) -> None:
    said = attenio("simulate", "--n", "32", "--d", "8", "--compute", "rounded", *options, "--json")
    assert 0 < json.loads(said.out)["max_abs_error"] < 0.05


def test_refreshes_at_their_times_are_told_beside_their_average(attenio: Any) -> None:
    asked = ("simulate", "--n", "256", "--d", "64", "--refresh", "together")
    assert "with refreshes together" in attenio(*asked).out
    said = json.loads(attenio(*asked, "--json").out)
    assert abs(said["refresh_cycles"] / said["cycles"] - 1) < 0.11


def test_one_key_that_does_not_fit_is_not_told_to_be_fewer(attenio: Any) -> None:
    said = attenio("simulate", "--model", "deepseek-v3", "--n", "1K").mistake
    assert "1 x 192 words" in said and said.endswith("use a larger kv_buffer_bytes, or a narrower head")


@pytest.mark.parametrize("asked", [(), ("--dataflow", "all")])
def test_energies_are_told_without_powers_of_ten(attenio: Any, asked: tuple[str, ...]) -> None:
    said = attenio("simulate", "--n", "4", *asked).out
    assert " nJ" in said and "e-" not in said


@pytest.mark.parametrize("way", ["forward", "backward"])
def test_all_dataflows_are_those_that_are_told_one_by_one_the_fastest_first(
    attenio: Any, way: str, monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    asked = ("simulate", "--n", "256", "--d", "16", "--mask", "causal", "--direction", way)
    found = attenio(*asked, "--dataflow", "all", "--json").json
    cycles = [each["cycles"] for each in found["dataflows"]]
    assert cycles == sorted(cycles) and not found["refused"]
    for each in found["dataflows"]:
        assert each == attenio(*asked, "--dataflow", each["dataflow"], "--json").json
    said = attenio(*asked, "--dataflow", "all").out
    assert all(f"{number:,}" in said for number in cycles)


def test_a_dataflow_that_does_not_fit_says_so_beside_the_others(attenio: Any) -> None:
    found = attenio("simulate", "--n", "64", "--d", "192", "--dataflow", "all", "--json").json
    assert [each["dataflow"] for each in found["dataflows"]] == ["flash-attention-2", "flat", "standard"]
    assert all("the KV buffer holds 128 words" in reason for reason in found["refused"].values())


@pytest.mark.parametrize(
    "option", [("--trace", "t.json"), ("--picture", "t.svg"), ("--refresh", "together"), ("--overlaps", "none")]
)
def test_what_is_about_one_dataflow_is_refused_beside_all(attenio: Any, option: tuple[str, str]) -> None:
    assert option[0] in attenio("simulate", "--n", "64", "--dataflow", "all", *option).mistake
