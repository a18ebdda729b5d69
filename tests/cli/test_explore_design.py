"""Laws of ``attenio explore-design``."""

from pathlib import Path
from typing import Any

import pytest

SMALL = ("--n", "4K", "--pe-lines", "32,64", "--macs-per-line", "32", "--exp-modules", "64,128", "--channels", "8,16")


def test_the_answer_has_a_front_a_best_design_and_advice(attenio: Any) -> None:
    found = attenio("explore-design", *SMALL, "--area-mm2", "3.8", "--json").json
    assert found["best"] == found["front"][0]
    assert found["best"]["area_mm2"] <= 3.8
    assert found["within_budget"] <= found["designs"]
    assert found["advice"].startswith("grow ")
    assert {growth["resource"] for growth in found["grow"]} == set(found["best"]) & {
        "pe_lines", "macs_per_line", "exp_modules", "cache_bytes", "channels"
    }  # fmt: skip


def test_without_a_budget_it_is_the_area_of_the_machine(attenio: Any) -> None:
    said = attenio("explore-design", *SMALL)
    assert "designs keep to 3.72 mm²" in said.out
    assert "twice as many" in said.out


def test_the_picture_is_written_where_it_is_wanted(attenio: Any, tmp_path: Path) -> None:
    attenio("explore-design", *SMALL, "--power-mw", "9000", "--picture", tmp_path / "front.svg")
    assert "<svg" in (tmp_path / "front.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--area-mm2", "0"), "area-mm2 is 0; a budget must be above zero"),
        (("--area-mm2", "small"), "area-mm2 is 'small'; give a number such as 3.72"),
        (("--power-mw", "nan"), "power-mw is nan; a budget must be above zero"),
        (("--power-mw", "1"), "raise it or sweep smaller parts"),
        (("--pe-lines", "0"), "pe-lines is 0"),
        (("--channels", "0"), "channels is 0"),
        (("--exp-modules", "64,99999999"), "exp-modules is 99,999,999"),
        (("--cache", "128KB,100"), "a cache of 100 bytes is smaller than the KV buffer of 256; use"),
        (("--pe-lines", "1:1000000:+1"), "designs are more than 2,000,000; use larger steps"),
        (("--cache", "4KB", "--key-tile", "64"), "no cache holds 64 keys of 64 words"),
        (("--machine", "h100"), "machine h100 has no accelerator"),
        (("--key-tile", "0"), "key-tile is 0; it must be at least 1"),
        (("--tiles", "all"), "unknown tiles 'all'; choose one of published, fastest"),
        (("--dataflow", "score-stationary"), "score-stationary has no program on the accelerator"),
        (("--picture", "front.png"), "picture front.png is not an .svg file"),
        (("--dtype", "fp32"), "works on words of 16 bits"),
    ],
)
def test_a_mistake_is_one_line(attenio: Any, options: tuple[str, ...], line: str) -> None:
    others = [each for pair in zip(SMALL[::2], SMALL[1::2], strict=True) if pair[0] not in options for each in pair]
    assert line in attenio("explore-design", *others, *options).mistake


def test_lines_are_broken_where_the_terminal_is_narrow(attenio: Any, monkeypatch: Any) -> None:
    wide = attenio("explore-design", *SMALL).out
    monkeypatch.setenv("COLUMNS", "20")
    told = [line for line in attenio("explore-design", *SMALL).out.splitlines() if "\u2500" not in line]
    assert max(map(len, wide.splitlines())) > 60
    assert not [line for line in told if len(line) > 60]


@pytest.mark.parametrize(
    "options",
    [
        ("--mask", "causal"),
        ("--mask", "causal", "--key-tile", "2"),
        ("--dataflow", "standard"),
        ("--dataflow", "flash-attention-2", "--mask", "causal"),
        ("--direction", "backward"),
    ],
)
def test_other_masks_and_dataflows_are_explored_as_they_are_simulated(attenio: Any, options: tuple[str, ...]) -> None:
    found = attenio("explore-design", *SMALL, "--tiles", "published", "--cache", "512KB", *options, "--json").json
    simulated = [each for each in options if each not in ("--key-tile", "2")]
    assert found["base"]["cycles"] == attenio("simulate", "--n", "4K", *simulated, "--json").json["cycles"]
    assert found["best"]["cycles"] <= found["base"]["cycles"]


def test_the_largest_parts_of_all_are_priced_and_have_nothing_to_double(attenio: Any) -> None:
    largest = ("--n", "128", "--pe-lines", "16M", "--macs-per-line", "32", "--exp-modules", "16M", "--channels", "16")
    found = attenio("explore-design", *largest, "--cache", "512KB", "--area-mm2", "inf", "--json").json
    assert {growth["resource"] for growth in found["grow"]} == {"macs_per_line", "cache_bytes", "channels"}
    assert "designs keep to no limit" in attenio("explore-design", *largest, "--area-mm2", "inf").out


def test_rates_that_are_no_whole_bytes_a_second_are_explored_as_they_are_simulated(
    attenio: Any, tmp_path: Path
) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(
        "levels: [{name: cache, capacity_bytes: 64KB}, {name: HBM, bandwidth_bytes_per_s: 100e9}]\n"
        "accelerator: {pe_lines: 8, macs_per_line: 8, exp_modules: 8, kv_buffer_bytes: 256, hbm: {channels: 7}}\n"
    )
    asked = ("--n", "100", "--d", "16", "--machine", file, "--dataflow", "flash-attention-2")
    sizes = ("--pe-lines", "8", "--macs-per-line", "8", "--exp-modules", "8", "--cache", "64KB", "--channels", "5,6,7")
    found = attenio("explore-design", *asked, *sizes, "--json").json
    assert found["designs"] == 3
    assert found["base"]["cycles"] == attenio("simulate", *asked, "--json").json["cycles"]


def test_more_cycles_than_are_counted_are_refused(attenio: Any) -> None:
    slow = ("--pe-lines", "1", "--macs-per-line", "1", "--exp-modules", "1", "--cache", "64KB", "--channels", "1")
    said = attenio("explore-design", "--n", "1G", "--d", "128", "--dataflow", "flash-attention-2", *slow)
    assert "more cycles than are counted exactly" in said.mistake


def test_a_design_is_listed_once_and_the_machine_among_them(attenio: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    asked = ("explore-design", *SMALL, "--cache", "256KB,512KB", "--area-mm2", "9")
    lines = [line.split() for line in attenio(*asked).out.splitlines()]
    table = [line for line in lines if "KiB" in line and ("s" in line or "ms" in line)]
    parts = [tuple(line[line.index("KiB") - 4 : line.index("KiB")]) for line in table]
    assert len(parts) == len(set(parts)) > 2
    assert sum("machine" in line for line in table) == 1
    front = attenio(*asked, "--json").json["front"]
    assert {(str(each["pe_lines"]), str(each["exp_modules"])) for each in front} <= {(p[0], p[2]) for p in parts}
