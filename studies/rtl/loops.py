"""What one accumulation a cycle takes: units with plain and with prefix adders, and MACs of other silicon.

    .venv/bin/python studies/rtl/loops.py LIBERTY

writes loops.json beside this file after every part.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.lib.wiring import Component

from attenio.accelerator.rtl.area import write_netlist
from attenio.accelerator.rtl.arithmetic.add import Add
from attenio.accelerator.rtl.arithmetic.divide import Divide
from attenio.accelerator.rtl.arithmetic.multiply import Multiply
from attenio.accelerator.rtl.arithmetic.multiply_add import MultiplyAdd
from attenio.accelerator.rtl.build import Built
from attenio.accelerator.rtl.exp_unit import ExpModule
from attenio.accelerator.rtl.mac import Mac
from attenio.accelerator.rtl.parts import Library, ports_of
from attenio.accelerator.rtl.timing import longest_path_ps, read_liberty
from attenio.parts import SiliconParts

HERE = Path(__file__).parent
# MACs as the published cycles need them, without what they could do without, and with adders of several cycles.
MACS = {
    "published": SiliconParts(),
    "shared divider": SiliconParts(macs_a_divider=32),
    "one multiplier, shared divider": SiliconParts(multipliers=1, macs_a_divider=32),
    "adder of 4 cycles, fill of 4, shared divider": SiliconParts(adder_cycles=4, fill_cycles=4, macs_a_divider=32),
    "adder of 4 cycles, fill of 2, one multiplier, shared divider": SiliconParts(
        adder_cycles=4, fill_cycles=2, multipliers=1, macs_a_divider=32
    ),
}


def built(name: str, part: Component, library: Library) -> Built:
    """A part, and the units in it."""
    library.placed.clear()
    texts, inside = {name: rtlil.convert(part, name=name, ports=ports_of(part))}, {name: dict(library.placed)}
    for inner in inside[name]:
        unit = library.parts[inner]
        texts[inner] = rtlil.convert(unit, name=inner, ports=ports_of(unit))
        inside[inner] = {}
    return Built(parts=texts, inside=inside)


def main() -> None:
    """Unit by unit, then MAC by MAC."""
    liberty = Path(sys.argv[1])
    cells = read_liberty(liberty)
    found: dict[str, Any] = {"library": cells.arguments[0], "units": {}, "macs": {}}

    def measured(name: str, part: Component, library: Library, *, prefix: bool = False) -> dict[str, Any]:
        begun = time.process_time()
        with tempfile.TemporaryDirectory() as scratch:
            area = write_netlist(built(name, part, library), name, liberty, Path(scratch), prefix=prefix)
            netlist = Path(scratch) / "netlist.json"
            about: dict[str, Any] = {"area_um2": area, "path_ps": round(longest_path_ps(netlist, cells, name))}
            if name == "fp16_multiply_add":
                about["addend_path_ps"] = round(longest_path_ps(netlist, cells, name, port="c"))
        return about | {"seconds": round(time.process_time() - begun, 1)}

    def keep(kind: str, name: str, about: dict[str, Any]) -> None:
        found[kind][name] = about
        (HERE / "loops.json").write_text(json.dumps(found, indent=2) + "\n")
        print(kind, name, about, flush=True)

    units = {"multiply_add": MultiplyAdd(), "multiply": Multiply(), "add": Add(), "divide": Divide()}
    for name, unit in units.items():
        for prefix in (False, True):
            about = measured(f"fp16_{name}", unit, Library(separate=True), prefix=prefix)
            keep("units", f"{name}, prefix adders" if prefix else name, about)
    library = Library(separate=True)
    keep("units", "exp_module, prefix adders", measured("exp_module", ExpModule(library), library, prefix=True))
    for name, silicon in MACS.items():
        library = Library(separate=True)
        keep("macs", name, measured("mac", Mac(library, passes=1, silicon=silicon), library))


if __name__ == "__main__":
    main()
