"""The published array, 64 lines of 32 MACs, for more than 100,000 cycles beside the simulator.

    .venv/bin/python studies/rtl/published.py

writes published.json beside this file.

Expected before it ran: 12,700 lines of C++, of which MAC, line and EXP module are 4,000 and compiled once with -O2 in
20 s, and the rest, wires and controllers, without optimisation in 60 s and 1 GB. 2,048 MACs of 1 us, evaluated three
times a cycle: 160 cycles a second, 11 minutes for 100,000 cycles, on a core of its own.
"""

import json
from pathlib import Path

from attenio.accelerator.rtl.check import check
from attenio.accelerator.rtl.design import Design
from attenio.workload import Workload

HERE = Path(__file__).parent
# A tile of 1,985 queries, as many as the cache holds at this width, and as many keys as take 100,000 cycles.
WORKLOAD = Workload(queries=1985, keys=640, d=64)


def main() -> None:
    """Build, run, compare."""
    found = check(Design.of(WORKLOAD, "attenio-512k")).to_json()
    found["cycles_per_second"] = round(found["cycles"] / found["seconds"]["run"])
    (HERE / "published.json").write_text(json.dumps(found, indent=2) + "\n")
    print(found)


if __name__ == "__main__":
    main()
