"""Laws of the longest path: a chain of cells whose delays a small liberty states."""

import json
from pathlib import Path

import pytest

from attenio.accelerator.rtl.timing import longest_path_ps, read_liberty, stage_registers
from attenio.errors import InvalidInput

LIBERTY = """
library (small) {{ /* a comment { */
  time_unit : "1ns";
  cell (INV) {{
    area : 1.0;
    pin (A) {{ direction : input; capacitance : 2.0; }}
    pin (Z) {{ direction : output;
      timing () {{ related_pin : "A";
        cell_rise (t) {{ index_1 ("0, 1"); index_2 ("0, 10"); values ("9, 9", \\
          "0.1, 0.6"); }}
        cell_fall (t) {{ index_1 ("0, 1"); index_2 ("0, 10"); values ("9, 9", "0.1, 0.3"); }} }} }}
  }}
  cell (DFF) {{
    ff (IQ) {{ next_state : "D"; }}
    pin (D) {{ direction : input; capacitance : 4.0; }}
    pin (CK) {{ direction : input; capacitance : 1.0; }}
    pin (Q) {{ direction : output;
      timing () {{ related_pin : "CK";
        cell_rise (t) {{ index_1 ("0, 1"); index_2 ("0, 10"); values ("9, 9", "0.2, 0.2"); }} }} }}
  }}
}}
""".replace("{{", "{").replace("}}", "}")


def files(folder: Path) -> tuple[Path, Path]:
    """A register, two inverters, the register again."""
    cells = {
        "r": {"type": "DFF", "connections": {"D": [4], "CK": [1], "Q": [2]}},
        "a": {"type": "INV", "connections": {"A": [2], "Z": [3]}},
        "b": {"type": "INV", "connections": {"A": [3], "Z": [4]}},
    }
    (folder / "cells.lib").write_text(LIBERTY.replace("{ */", "*/"))
    (folder / "netlist.json").write_text(json.dumps({"modules": {"top": {"cells": cells}}}))
    return folder / "netlist.json", folder / "cells.lib"


def test_a_path_is_the_sum_of_its_cells_each_with_the_load_that_it_drives(tmp_path: Path) -> None:
    netlist, liberty = files(tmp_path)
    # 0.2 of the register; an inverter before a pin of 2 takes 0.2, before one of 4 takes 0.3
    assert longest_path_ps(netlist, read_liberty(liberty), "top") == pytest.approx(700)


def test_stages_take_a_register_for_every_net_that_is_needed_beyond_their_end(tmp_path: Path) -> None:
    netlist, liberty = files(tmp_path)
    cells = read_liberty(liberty)
    # settled after 200, 400 and 700 ps: at 300 and 600 ps one net each is needed later
    assert stage_registers(netlist, cells, "top", 300) == 2
    assert stage_registers(netlist, cells, "top", 800) == 0


def test_a_file_without_cells_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.lib"
    empty.write_text("library (none) { }")
    with pytest.raises(InvalidInput, match="has no cells"):
        read_liberty(empty)
    for text in ('{"a":', "library (half", "library (half) { cell (one) { area"):
        empty.write_text(text)
        with pytest.raises(InvalidInput, match=r"empty.lib (ends in the middle|has no cells)"):
            read_liberty(empty)
    with pytest.raises(InvalidInput, match="is no file"):
        read_liberty(tmp_path / "missing.lib")
