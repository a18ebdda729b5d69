"""Four MACs and two EXP modules with their controller on a Lattice ECP5.

    .venv/bin/python studies/rtl/fpga.py

writes fpga.json beside this file.
"""

import json
import time
from pathlib import Path

from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.fpga import placed
from attenio.accelerator.rtl.small import small_machine
from attenio.workload import Workload

HERE = Path(__file__).parent


def main() -> None:
    """Map, place, route."""
    begun = time.perf_counter()
    design = Design.of(Workload(n=8, d=4), small_machine(cache_words=100))
    found = {"macs": design.hardware.pe.macs, "modules": design.hardware.exp.modules, **vars(placed(design))}
    found["seconds"] = round(time.perf_counter() - begun)
    (HERE / "fpga.json").write_text(json.dumps(found, indent=1) + "\n")
    print(found)


if __name__ == "__main__":
    main()
