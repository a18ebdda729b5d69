"""Laws of areas as Yosys counts them: no cell is left out of the sum."""

from pathlib import Path

import pytest

from attenio.accelerator.rtl import installed
from attenio.accelerator.rtl.area import area_in
from attenio.errors import InvalidInput

COUNTED = """
   Area for cell type \\mac is unknown!

   Chip area for module '\\mac_line': 1590.25
"""


def test_an_area_is_that_of_all_cells_and_other_parts_are_counted_by_themselves() -> None:
    assert area_in(COUNTED, "mac_line", {"mac", "mac_line"}) == 1590.25


def test_a_cell_that_has_no_area_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"mac_line has cells without an area, such as \$mux"):
        area_in("   Area for cell type $mux is unknown!\n" + COUNTED, "mac_line", {"mac", "mac_line"})


def test_a_path_is_what_its_slack_leaves_of_the_period() -> None:
    assert installed.path_in("  1.25   data arrival time\n  995.877502   slack (MET)\n") == pytest.approx(4.122498)
    # all that a part does may lie in others, which have paths of their own
    assert installed.path_in("\nNo paths found.\nWarning: module exp_module not found. Creating black box.\n") is None
    with pytest.raises(InvalidInput, match="OpenSTA stopped: no such file"):
        installed.path_in("no such file\n")


def test_tools_are_asked_where_they_are_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installed.lint(tmp_path, ["a.v"], "top") is None
    assert installed.critical_path(tmp_path, "mac", clocked=True) is None
    for tool, says in (("verilator", "echo %Warning-WIDTH: $@ >&2"), ("sta", "echo 990.5 slack")):
        (tmp_path / tool).write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / tool).chmod(0o755)
    (warning,) = installed.lint(tmp_path, ["a.v"], "top") or ()
    assert "-Wno-DECLFILENAME --top-module top a.v" in warning
    assert installed.critical_path(tmp_path, "mac", clocked=True) == 9.5
    assert "create_clock -name clock -period 1000.0 [get_ports clk]" in (tmp_path / "sta.tcl").read_text()
