"""Areas and longest paths of the parts of the published machine, with the cells of a liberty.

    .venv/bin/python studies/rtl/areas.py LIBERTY [PART...]

writes areas.json beside this file after every part; with names of parts only these are measured again. Of the EXP
module it also counts the registers that stages of 1 ns would take. The library itself is not part of the study.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib.wiring import Component

from attenio.accelerator.rtl.area import sta_path_ps, write_netlist
from attenio.accelerator.rtl.array_control import ArrayControl
from attenio.accelerator.rtl.build import Built
from attenio.accelerator.rtl.controller import Controller
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.exp_control import ExpControl
from attenio.accelerator.rtl.exp_unit import ExpModule
from attenio.accelerator.rtl.hbm_port import HbmPort
from attenio.accelerator.rtl.kv_buffer import KvBlock
from attenio.accelerator.rtl.mac import Mac
from attenio.accelerator.rtl.mac_line import MacLine
from attenio.accelerator.rtl.parts import Library, ports_of
from attenio.accelerator.rtl.pe_array import line_sizes
from attenio.accelerator.rtl.timing import Group, longest_path_ps, read_liberty, stage_registers
from attenio.workload import Workload

HERE = Path(__file__).parent
PERIOD_PS = 1000


def register_um2(cells: Group) -> float:
    """The smallest register of a library."""
    return min(float(cell.attributes["area"][0]) for cell in cells.all("cell") if cell.all("ff"))


def main() -> None:
    """Every part by itself: the machine as a whole need not be elaborated for its area."""
    liberty = Path(sys.argv[1])
    design = Design.of(Workload(n=1985, d=64), "attenio-512k")
    library, pe = Library(separate=True), design.hardware.pe
    block = KvBlock(words=64, ways=1, arriving=design.arriving)
    parts: dict[str, tuple[Component, int]] = {
        "mac": (Mac(library, passes=design.passes), pe.macs),
        "exp_module": (ExpModule(library), design.hardware.exp.modules),
        "key_block": (block, 2),
        "mac_line": (MacLine(library, line_sizes(design)), pe.lines),
        "controller": (Controller(design.nest), 1),
        "array_control": (ArrayControl(design), 1),
        "exp_control": (ExpControl(design), 1),
        "hbm_port": (HbmPort(design), 1),
    }
    texts, inside = {}, {}
    for name, (part, _) in parts.items():
        library.placed.clear()
        texts[name] = rtlil.convert(part, name=name, ports=ports_of(part))
        inside[name] = dict(library.placed)
    units = {name: part for name, part in library.parts.items() if name.startswith("fp16")}
    texts |= {name: rtlil.convert(part, name=name, ports=ports_of(part)) for name, part in units.items()}
    inside |= {name: {} for name in units}
    # banks stand in a line by name, and are memories
    texts |= {name: "" for name in library.parts if name not in texts}
    times = {name: count for name, (_, count) in parts.items()}
    cells, made = read_liberty(liberty), Built(parts=texts, inside=inside)
    chosen, known = sys.argv[2:] or [*units, *parts], HERE / "areas.json"
    found = json.loads(known.read_text()) if sys.argv[2:] else {"library": cells.arguments[0], "parts": {}}
    for name in chosen:
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as scratch:
            area, netlist = write_netlist(made, name, liberty, Path(scratch)), Path(scratch) / "netlist.json"
            path = longest_path_ps(netlist, cells, name)
            sta = sta_path_ps(Path(scratch), made, name, cells)
            if name == "exp_module":
                registers = stage_registers(netlist, cells, name, PERIOD_PS)
                found["stages"] = {"registers": registers, "register_um2": register_um2(cells)}
        seconds = round(time.perf_counter() - begun, 1)
        about = {"area_um2": area, "path_ps": round(path), "times": times.get(name), "seconds": seconds}
        found["parts"][name] = about | ({} if sta is None else {"sta_path_ps": round(sta)})
        (HERE / "areas.json").write_text(json.dumps(found, indent=2) + "\n")
        print(name, found["parts"][name], flush=True)


if __name__ == "__main__":
    main()
