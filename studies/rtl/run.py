"""The accelerator as hardware beside the simulator and beside the published chip: what was measured, put together.

.venv/bin/python studies/rtl/machines.py            random machines, hours on one core; goes on where it was
.venv/bin/python studies/rtl/areas.py LIBERTY       parts of the published machine, synthesised
.venv/bin/python studies/rtl/published.py FOLDER    the published array for 109,000 cycles, 13 minutes of a core
.venv/bin/python studies/rtl/proofs.py              controllers, proven by induction, minutes each
.venv/bin/python studies/rtl/energy.py LIBERTY      the energy of one run by activity
.venv/bin/python studies/rtl/fpga.py                a small array on an FPGA
.venv/bin/python studies/rtl/clock.py               the simulator at the clock that was measured
.venv/bin/python studies/rtl/silicon.py             random machines of random silicon, a minute each
.venv/bin/python studies/rtl/loops.py LIBERTY       units with plain and prefix adders, MACs of other silicon
PYTHON studies/rtl/memories.py 64 64 1              banks by OpenRAM, with a Python that has it
.venv/bin/python studies/rtl/banks.py FOLDER        banks of the published cache by CACTI 7, half a minute
.venv/bin/python studies/rtl/figures.py             figures 10 to 17, energy and table 3 with that silicon
.venv/bin/python studies/rtl/pictures.py            the parts with their areas, and one inner iteration
.venv/bin/python studies/rtl/run.py                 results.json and answer.md from what these have written
"""

import json
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from answer import answer

from attenio.files import write_atomically
from attenio.measurement.provenance import provenance

HERE = Path(__file__).parent


def read(name: str) -> Any:
    """What a script has written, None if it has not run."""
    path = HERE / name
    return json.loads(path.read_text()) if path.exists() else None


def lines(name: str) -> list[dict[str, Any]]:
    """The same of a file with a case a line."""
    path = HERE / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    """Put results together and answer from them."""
    cases = lines("machines.jsonl")
    results = {
        "provenance": asdict(provenance()),
        "processor": platform.machine(),
        "machines": sorted(cases, key=lambda case: case["seed"]),
        "areas": read("areas.json"),
        "published": read("published.json"),
        "proofs": sorted(lines("proofs.jsonl"), key=lambda case: case["seed"]),
        "energy": read("energy.json"),
        "fpga": read("fpga.json"),
        "clock": read("clock.json"),
        "silicon": lines("silicon.jsonl"),
        "loops": read("loops.json"),
        "figures": read("figures.json"),
        "memories": read("memories.json"),
        "banks": read("banks.json"),
    }
    write_atomically(HERE / "results.json", json.dumps(results, indent=1) + "\n")
    write_atomically(HERE / "answer.md", answer(results))


if __name__ == "__main__":
    main()
