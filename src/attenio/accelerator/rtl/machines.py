"""The machine that a dataflow runs on."""

from amaranth.lib.wiring import Component

from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.parts import Library
from attenio.accelerator.rtl.row_machine import RowMachine
from attenio.accelerator.rtl.top import Accelerator


def top_of(library: Library, design: Design) -> Component:
    """The whole of a design."""
    return RowMachine(library, design) if design.along_rows else Accelerator(library, design)
