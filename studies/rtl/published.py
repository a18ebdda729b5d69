"""The published array, 64 lines of 32 MACs, for more than 100,000 cycles beside the simulator.

    .venv/bin/python studies/rtl/published.py FOLDER

builds the model in FOLDER, runs it there and writes published.json beside this file. What FOLDER has is not made
again: a run may be stopped and continued, or made on another day than the comparison.

Expected before it ran: 12,700 lines of C++, of which MAC, line and EXP module are 4,000 and compiled once with -O2 in
20 s, and the rest, wires and controllers, without optimisation in 60 s and 1 GB. 2,048 MACs of 1 us, evaluated three
times a cycle: 160 cycles a second, 11 minutes for 100,000 cycles, on a core of its own.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from attenio.accelerator.rtl.build import built
from attenio.accelerator.rtl.check import Runner, compared, simulated_steps
from attenio.accelerator.rtl.cxxrtl_model import compile_model
from attenio.accelerator.rtl.cxxrtl_run import driver_text, raw_run, run_model
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.streams import streams
from attenio.workload import Workload

HERE = Path(__file__).parent
# A tile of 1,985 queries, as many as the cache holds at this width, and as many keys as take 100,000 cycles.
WORKLOAD = Workload(queries=1985, keys=640, d=64)
SEED = 0
MOST_CYCLES = 250_000


def kept(path: Path, make: Any) -> Any:
    """What a file has, or what is made and written to it."""
    if not path.exists():
        path.write_text(json.dumps(make()) + "\n")
    return json.loads(path.read_text())


def build(design: Design, folder: Path) -> dict[str, float]:
    """The model; seconds to elaborate and to compile it."""
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    made = built(design)
    elaborated = time.perf_counter()
    compile_model(made, driver_text(design, waves=False), folder)
    return {"elaborate": elaborated - begun, "compile": time.perf_counter() - elaborated}


def run(design: Design, folder: Path) -> dict[str, Any]:
    """The run: its cycles, whether a sum was late, and its seconds on a processor."""
    raw = run_model(folder / "model", design, streams(design, SEED), MOST_CYCLES)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    return {"cycles": raw.cycles, "late": raw.late, "seconds": seconds}


def main() -> None:
    """Build, run, compare."""
    folder, design = Path(sys.argv[1]), Design.of(WORKLOAD, "attenio-512k")
    seconds = kept(folder / "built.json", lambda: build(design, folder))
    done = kept(folder / "ran.json", lambda: run(design, folder))
    raw = raw_run(folder, design, (done["cycles"], done["late"]), done["seconds"])
    simulated = simulated_steps(design)
    found = compared(design, Runner.CXXRTL, raw, simulated, SEED, seconds | {"run": done["seconds"]}).to_json()
    found["cycles_per_second"] = round(found["cycles"] / found["seconds"]["run"])
    (HERE / "published.json").write_text(json.dumps(found, indent=2) + "\n")
    print(found)


if __name__ == "__main__":
    main()
