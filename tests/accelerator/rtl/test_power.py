"""Laws of power by activity: OpenSTA where it is, one that is made up, and none."""

import shutil
from pathlib import Path

import pytest

from attenio.accelerator.rtl import installed, power
from attenio.accelerator.rtl.activity import Activity
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.installed import CellPower
from attenio.accelerator.rtl.power import joules_of
from attenio.accelerator.rtl.small import small_machine
from attenio.errors import DoesNotFit, InvalidInput
from attenio.workload import Workload

# energies of nothing but loads: 4 fF at 2 V, 2 V is 8 fJ a change
LIBERTY = """
library (small) {
  delay_model : table_lookup; time_unit : "1ns"; voltage_unit : "1V"; capacitive_load_unit (1, ff);
  leakage_power_unit : "1nW"; nom_voltage : 2.0; nom_temperature : 25; nom_process : 1;
  input_threshold_pct_rise : 50; input_threshold_pct_fall : 50;
  output_threshold_pct_rise : 50; output_threshold_pct_fall : 50;
  slew_lower_threshold_pct_rise : 30; slew_lower_threshold_pct_fall : 30;
  slew_upper_threshold_pct_rise : 70; slew_upper_threshold_pct_fall : 70;
  operating_conditions (typical) { process : 1; voltage : 2.0; temperature : 25; }
  default_operating_conditions : typical;
  cell (INV) { area : 1; cell_leakage_power : 10;
    pin (A) { direction : input; capacitance : 4.0; }
    pin (Z) { direction : output; function : "!A"; } }
}
"""
NETLIST = (
    "module pair(a, z);\n input a;\n output z;\n wire n;\n INV i (.A(a), .Z(n));\n INV j (.A(n), .Z(z));\nendmodule\n"
)
REPORT = """
   Internal  Switching    Leakage      Total
      Power      Power      Power      Power
----------------------------------------------
   2.0e-06   0.000000    1.0e-08    2.0e-06 _7_
   0.000000  0.000000    2.0e-08    2.0e-08 _8_
activity 1
   Internal  Switching    Leakage      Total   (Watts)
   5.0e-06   4.0e-06     1.0e-08    9.0e-06 _7_
   1.0e-06   1.0e-06     2.0e-08    2.0e-06 _8_
"""


def run_of(changes: dict[str, float]) -> Activity:
    return Activity(
        cycles=100, switching_fj=0, clock_fj=0, leaking_fj_a_ns=0, outputs={}, clock_net_fj=5e6, changes=changes
    )


def test_the_power_of_a_cell_is_what_two_reports_say_and_goes_with_its_changes() -> None:
    found = installed.powers_in("activity 0\n" + REPORT)
    assert found["_7_"].changing == pytest.approx(7e-6)
    assert (found["_7_"].clock, found["_8_"].leaking) == (2e-6, 2e-8)
    # a quarter of 7 uW and half of 2 uW, the clock's 2 uW, 30 nW that leak, for a microsecond; and the clock's wires
    joules = joules_of(found, run_of({"_7_": 0.25, "_8_": 0.5}), 1e-6)
    assert joules == pytest.approx(1e-6 * (1.75e-6 + 1e-6 + 2e-6 + 3e-8) + 5e-9)


def test_reports_that_do_not_match_are_refused() -> None:
    for report in ("", "activity 0\nactivity 1\n", REPORT.replace("_8_", "_9_", 1)):
        with pytest.raises(InvalidInput, match="OpenSTA stopped"):
            installed.powers_in(report)


@pytest.mark.parametrize(
    ("version", "both"), [("2.0.17", True), ("2.1.0", True), ("2.2.0", False), ("3.0.1", False), ("", False)]
)
def test_old_versions_take_a_rise_and_a_fall_for_every_change(version: str, both: bool) -> None:
    assert installed.counts_both_edges(version) is both


def test_without_opensta_there_is_no_power_and_a_mistake_of_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert installed.sta_version() is None
    assert installed.cell_powers(tmp_path, "pair", period=1.0, clocked=False) is None
    (tmp_path / "sta").write_text("#!/bin/sh\necho 'Error: netlist.v, line 3 syntax error'\n")
    (tmp_path / "sta").chmod(0o755)
    with pytest.raises(InvalidInput, match="OpenSTA stopped: Error: netlist"):
        installed.cell_powers(tmp_path, "pair", period=1.0, clocked=False)


@pytest.mark.skipif(shutil.which("sta") is None, reason="OpenSTA is not installed (package opensta of Debian)")
def test_opensta_counts_half_of_c_v2_for_every_change_of_a_load(tmp_path: Path) -> None:
    (tmp_path / "cells.lib").write_text(LIBERTY)
    (tmp_path / "netlist.v").write_text(NETLIST)
    found = installed.cell_powers(tmp_path, "pair", period=1.0, clocked=False)
    assert found is not None and found.keys() == {"i", "j"}
    # 8 fJ a change, and a change in every nanosecond
    assert found["i"].changing == pytest.approx(8e-6, rel=1e-3)
    assert found["j"].changing == pytest.approx(0, abs=1e-12)
    assert found["i"].leaking == pytest.approx(1e-8, rel=1e-3)
    assert found["i"].clock == pytest.approx(0, abs=1e-12)


def test_runs_whose_gates_would_take_hours_are_refused_in_one_line() -> None:
    design = Design.of(Workload(n=8, d=8), small_machine(cache_words=80, rate=2))
    power.check_power(design)
    long = Design.of(Workload(n=400, d=8), small_machine(cache_words=80, rate=2))
    with pytest.raises(DoesNotFit, match="use a smaller array or a smaller n"):
        power.check_power(long)


def test_cells_without_a_power_of_their_own_cost_nothing() -> None:
    assert joules_of({}, run_of({}), 1.0) == pytest.approx(5e-9)
    assert joules_of({"_7_": CellPower(changing=1.0, clock=0.0, leaking=0.0)}, run_of({}), 1.0) == pytest.approx(5e-9)
