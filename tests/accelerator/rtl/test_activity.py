"""Laws of energy by activity: cells whose energies a small liberty states, and waves read back."""

from pathlib import Path
from typing import Any

import pytest

from attenio.accelerator.rtl.activity import Netlist
from attenio.accelerator.rtl.timing import Group, read_liberty
from attenio.accelerator.rtl.waves import Waves
from attenio.errors import InvalidInput

LIBERTY = """
library (small) {
  nom_voltage : 2.0;
  cell (INV) { cell_leakage_power : 10;
    pin (A) { direction : input; capacitance : 2.0; }
    pin (Z) { direction : output; function : "!A";
      internal_power () { related_pin : "A";
        rise_power (t) { index_1 ("0, 1"); index_2 ("0, 10"); values ("9, 9", "0.5, 0.5"); } } } }
  cell (MUX) { cell_leakage_power : 0;
    pin (A) { direction : input; capacitance : 0.0; }
    pin (B) { direction : input; capacitance : 0.0; }
    pin (S) { direction : input; capacitance : 0.0; }
    pin (Z) { direction : output; function : "((S & B) | (A & !S))"; } }
  cell (DFF) { cell_leakage_power : 20;
    ff ("IQ", "IQN") { next_state : "D"; clocked_on : "CK"; }
    pin (D) { direction : input; capacitance : 4.0; }
    pin (CK) { direction : input; capacitance : 1.0;
      internal_power () {
        rise_power (t) { index_1 ("0, 1"); values ("9, 3"); }
        fall_power (t) { index_1 ("0, 1"); values ("9, 1"); } } }
    pin (Q) { direction : output; function : "IQ";
      internal_power () { related_pin : "CK";
        rise_power (t) { index_1 ("0, 1"); index_2 ("0, 10"); values ("9, 9", "1, 11"); } } } }
}
"""


def liberty(folder: Path) -> Group:
    (folder / "cells.lib").write_text(LIBERTY)
    return read_liberty(folder / "cells.lib")


def module(cells: dict[str, tuple[str, dict[str, Any]]], **ports: tuple[str, list[Any]]) -> dict[str, Any]:
    return {
        "ports": {name: {"direction": way, "bits": bits} for name, (way, bits) in ports.items()},
        "cells": {
            name: {"type": kind, "connections": {pin: [net] for pin, net in pins.items()}}
            for name, (kind, pins) in cells.items()
        },
    }


def test_every_change_costs_its_load_and_what_its_cell_spends(tmp_path: Path) -> None:
    turning = module(
        {"i": ("INV", {"A": 3, "Z": 4}), "r": ("DFF", {"D": 4, "CK": 2, "Q": 3})},
        clk=("input", [2]),
        q=("output", [3]),
    )
    found = Netlist(turning, liberty(tmp_path)).run({"clk": [[0]] * 4})
    assert found.outputs == {"q": [[0], [1], [0], [1]]}
    # three changes each: 3 inside at a load of 2 and half of 2 V^2; 0.5 inside and half of 4 V^2
    assert found.switching_fj == pytest.approx(3 * (3 + 4) + 3 * (0.5 + 8))
    assert found.clock_fj == pytest.approx(4 * (3 + 1 + 1 * 4))
    assert found.leaking_fj_a_ns == pytest.approx(0.03)
    assert found.joules(0.5e9) == pytest.approx(1e-15 * (46.5 + 32 + 4 * 2 * 0.03))


def test_many_parts_are_run_at_once_each_on_its_own_words(tmp_path: Path) -> None:
    cells = {f"m{bit}": ("MUX", {"A": 10 + bit, "B": 20 + bit, "S": 2, "Z": 30 + bit}) for bit in range(3)}
    pins = {"a": ("input", [10, 11, 12]), "b": ("input", [20, 21, 22]), "s": ("input", [2])}
    choosing = module(cells, **pins, z=("output", [30, 31, 32]))
    seen = {"a": [[1, 5], [2, 7]], "b": [[6, 3], [4, 0]], "s": [[0, 1], [1, 0]]}
    assert Netlist(choosing, liberty(tmp_path)).run(seen).outputs["z"] == [[1, 3], [4, 7]]


def test_cells_that_the_library_does_not_have_and_loops_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has no cell NAND"):
        Netlist(module({"n": ("NAND", {"A": 2, "Z": 3})}, a=("input", [2])), liberty(tmp_path))
    with pytest.raises(InvalidInput, match="a loop without a register"):
        Netlist(module({"i": ("INV", {"A": 3, "Z": 3})}, a=("input", [2])), liberty(tmp_path))


def test_waves_have_the_words_of_every_instance_in_every_cycle(tmp_path: Path) -> None:
    (tmp_path / "waves.vcd").write_text(
        "$timescale 1ns $end\n$scope module line_0 $end\n"
        "$scope module mac_0 $end\n$var wire 16 ! q $end\n$upscope $end\n"
        "$scope module mac_1 $end\n$var wire 16 # q $end\n$var wire 1 % on $end\n$upscope $end\n$upscope $end\n"
        "#0\nb101 !\nb0 #\n1%\n#1\nb11 #\n#2\n0%\n"
    )
    waves = Waves(tmp_path / "waves.vcd")
    places = waves.places("q", "mac_")
    assert places == ["line_0.mac_0", "line_0.mac_1"]
    assert waves.words(places, "q") == [[5, 0], [5, 3], [5, 3]]
    assert waves.words(places[1:], "on") == [[1], [1], [0]]
