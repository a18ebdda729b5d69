"""Banks of the published cache by CACTI 7, the tool that its area is from: with one access a cycle, and with two.

    .venv/bin/python studies/rtl/banks.py FOLDER

writes banks.json beside this file. FOLDER has CACTI 7 (HewlettPackard/cacti, commit 1ffd8df), made there with ``make``.
Every bank is optimised for area at 22 nm, for high performance, as its files have that process. A line of 32 MACs takes
512 bits a cycle; they may come from one bank or from narrower ones that hear the same address.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MACS, LINE_BITS, WORD_BITS = 2048, 512, 16
WIDTHS = (16, 32, 64, 128, 256, 512)
# Rows of a bank, how many banks beside each other for the words of a MAC, and the ports of each.
ONE, TWO = {"rw": 1, "r": 0, "w": 0}, {"rw": 0, "r": 1, "w": 1}
ORGANISATIONS: dict[str, tuple[tuple[int, int, dict[str, int]], ...]] = {
    "one access a cycle": ((128, 1, ONE),),
    "even and odd addresses apart": ((64, 2, ONE),),
    "queries with one port, outputs with two": ((64, 1, ONE), (64, 1, TWO)),
    "queries, and outputs in halves": ((64, 1, ONE), (32, 2, ONE)),
}
SETTINGS = {
    "-associativity": "1",
    "-UCA bank count": "1",
    "-Data array cell type -": '"itrs-hp"',
    "-Data array peripheral type -": '"itrs-hp"',
    "-cache type": '"ram"',
    "-design objective (weight delay, dynamic power, leakage power, cycle time, area)": "0:0:0:0:100",
    "-deviate (delay, dynamic power, leakage power, cycle time, area)": "100000:100000:100000:100000:100000",
    "-Optimize ED or ED^2 (ED, ED^2, NONE):": '"NONE"',
    "-Add ECC -": '"false"',
}


def bank(folder: Path, rows: int, bits: int, ports: dict[str, int], process_um: float = 0.022) -> dict[str, Any]:
    """One bank: its area in um2, the cycle that it takes in ns, what it leaks in mW."""
    settings = {
        **SETTINGS,
        "-size (bytes)": str(rows * bits // 8),
        "-block size (bytes)": str(bits // 8),
        "-output/input bus width": str(bits),
        "-read-write port": str(ports["rw"]),
        "-exclusive read port": str(ports["r"]),
        "-exclusive write port": str(ports["w"]),
        "-technology (u)": f"{process_um:.3f}",
    }
    lines = (folder / "cache.cfg").read_text().splitlines()
    kept = [line for line in lines if not line.startswith(tuple(settings))]
    asked = folder / "attenio.cfg"
    asked.write_text("\n".join([*kept, *(f"{name} {value}" for name, value in settings.items())]) + "\n")
    done = subprocess.run(["./cacti", "-infile", asked.name], cwd=folder, capture_output=True, text=True, check=True)
    height, width = _numbers(r"Cache height x width \(mm\): ([\d.]+) x ([\d.]+)", done.stdout)
    (cycle,) = _numbers(r"Cycle time \(ns\): *([\d.]+)", done.stdout)
    (leaking,) = _numbers(r"Total leakage power of a bank \(mW\): ([\d.]+)", done.stdout)
    (cells,) = _numbers(r"Area efficiency \(Memory cell area/Total area\) - ([\d.]+)", done.stdout)
    area = 1e6 * height * width
    return {"um2": round(area, 2), "cells": cells / 100, "cycle_ns": cycle, "leaking_mw": leaking}


def _numbers(pattern: str, text: str) -> list[float]:
    found = re.search(pattern, text)
    if found is None:
        raise SystemExit(f"CACTI told no {pattern!r}: {text[-300:]}")
    return [float(each) for each in found.groups()]


def main() -> None:
    """Every organisation with every width, and one memory for all."""
    folder = Path(sys.argv[1])
    whole = bank(folder, 8192, 512, ONE)
    found: dict[str, Any] = {"whole": {"rows": 8192, "bits": 512, **whole}, "banks": []}
    for name, parts in ORGANISATIONS.items():
        for bits in WIDTHS:
            made = [(times * MACS * WORD_BITS // bits, bank(folder, rows, bits, ports)) for rows, times, ports in parts]
            line = {
                "organisation": name,
                "bits": bits,
                "banks": sum(count for count, _ in made),
                "mm2": round(sum(count * each["um2"] for count, each in made) / 1e6, 4),
                "cells_mm2": round(sum(count * each["um2"] * each["cells"] for count, each in made) / 1e6, 4),
                "cycle_ns": max(each["cycle_ns"] for _, each in made),
                "leaking_mw": round(sum(count * each["leaking_mw"] for count, each in made), 1),
            }
            found["banks"].append(line)
            print(line, flush=True)
    # the banks that memories.py has drawn at 45 nm, by CACTI
    found["drawn"] = [
        {"words": rows, "bits": bits, "ports": 2 if ports is TWO else 1, **bank(folder, rows, bits, ports, 0.045)}
        for rows, bits, ports in ((64, 16, ONE), (64, 16, TWO), (64, 64, ONE), (64, 64, TWO))
    ]
    print(found["whole"], found["drawn"])
    (HERE / "banks.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
