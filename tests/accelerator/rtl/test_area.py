"""Laws of areas as Yosys counts them: no cell is left out of the sum."""

import pytest

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
