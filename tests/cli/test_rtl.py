"""Laws of ``attenio rtl`` on the command line."""

import sys
from pathlib import Path
from typing import Any

import pytest

from attenio.accelerator.energy import Component
from attenio.accelerator.rtl import area, build, check, installed, power, tools

ASKED = ("rtl", "build", "--machine", "attenio-64k", "--n", "32", "--d", "16", "--out")


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_built(
    attenio: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "built", lambda *_: pytest.fail("built before the folder was tried"))
    monkeypatch.setattr(tools, "find_spec", lambda name: name)
    (tmp_path / "file").write_text("")
    assert "cannot make the folder" in attenio(*ASKED, tmp_path / "file").mistake
    assert "cannot make the folder" in attenio(*ASKED, tmp_path / "file" / "inside").mistake


def test_a_missing_extra_is_said_before_anything_is_built(
    attenio: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "built", lambda *_: pytest.fail("built before Yosys was looked for"))
    monkeypatch.setattr(check, "built", lambda *_: pytest.fail("built before Yosys was looked for"))
    monkeypatch.setattr(tools, "find_spec", lambda name: None)
    new = tmp_path / "new"
    assert attenio(*ASKED, new).mistake.startswith("Yosys needs the 'rtl' extra: pip install")
    assert not new.exists()
    said = attenio("rtl", "check", *ASKED[2:-1])
    assert said.status == 2 and "Yosys needs the 'rtl' extra: pip install" in said.err


@pytest.mark.parametrize("level", ["-1", "4"])
def test_a_level_that_no_compiler_has_is_refused(attenio: Any, level: str) -> None:
    assert f"optimise is {level}; compilers know 0 to 3" in attenio("rtl", "check", "--optimise", level).mistake


def test_what_this_computer_cannot_compute_is_refused_before_its_inputs_are_drawn(attenio: Any) -> None:
    refused = attenio("rtl", "check", "--n", "1G").mistake
    assert "computing numbers for 1,152,921,504,606,846,976 scores takes long; use at most 16,777,216" in refused


def test_what_is_built_is_said_before_it_is(attenio: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> dict[str, Any]:
        print("built", file=sys.stderr)
        return {}

    monkeypatch.setattr(build, "write_verilog", nothing)
    monkeypatch.setattr(tools, "find_spec", lambda name: name)
    monkeypatch.setattr(installed.shutil, "which", lambda name: None)
    said = attenio(*ASKED, tmp_path / "new", "--json")
    assert said.json["parts"] == {}
    not_linted = "attenio: Verilator is not installed: the files were not linted"
    assert said.json["lint"] is None
    assert said.err.splitlines() == ["attenio: building 2,048 MACs and their controller", "built", not_linted]


def test_areas_come_with_the_cache_and_say_what_is_missing(
    attenio: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = area.PartArea(part="mac", area_um2=6000.0, times=2048, path_ps=9000.0)
    found = area.MachineArea(parts=(part,), memory_bits=2**22, node_nm=45)
    monkeypatch.setattr(area, "machine_area", lambda *_, **__: found)
    spent = power.PartPower(
        component=Component.PE,
        part="mac",
        instances=4,
        cycles=590,
        changing=5e-9,
        clock=2e-9,
        leaking=1e-9,
        sta_joules=None,
        sta_wired_joules=None,
        simulated_joules=3e-9,
        words=10,
        words_wrong=0,
    )
    monkeypatch.setattr(power, "machine_power", lambda *_: (spent,))
    monkeypatch.setattr(installed.shutil, "which", lambda name: None)
    (tmp_path / "cells.lib").write_text("library (l) { nom_voltage : 1.1; cell (INV) { area : 1; } }")
    asked = (
        "rtl",
        "area",
        "--machine",
        "attenio-512k",
        "--n",
        "1985",
        "--d",
        "64",
        "--liberty",
        tmp_path / "cells.lib",
    )
    said = attenio(*asked, "--json")
    assert said.json["sta"] is None and "power" not in said.json
    assert said.json["components"][-1] == {
        "component": "cache",
        "mm2": None,
        "mm2_at_22_nm": pytest.approx(0.6108),
        "published_mm2": pytest.approx(0.79),
    }
    assert "OpenSTA is not installed: paths are to first order, without slopes" in said.err
    # the published machine has too many gates to be run one by one
    assert "use a smaller array or a smaller n" in attenio(*asked, "--power").mistake
    monkeypatch.setattr(power, "check_power", lambda *_: None)
    told = attenio(*asked, "--power", "--json")
    assert told.json["power"][0]["joules"] == pytest.approx(8e-9)
    assert told.json["power"][0]["joules_at_22_nm"] == pytest.approx(8e-9 * 22 / 45 * (0.8 / 1.1) ** 2)
    assert "and power is our own count alone" in told.err
    assert "nJ by gates" in attenio(*asked, "--power").out
    monkeypatch.setattr(installed, "sta_version", lambda: "2.0.17")
    assert "2.2 and later do not" in attenio(*asked, "--power").err
