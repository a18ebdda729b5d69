"""The published array, 64 lines of 32 MACs, for more than 100,000 cycles beside the simulator.

    .venv/bin/python studies/rtl/published.py

writes published.json beside this file. Building it takes minutes, running it some more.
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
    found = check(Design.of(WORKLOAD, "attenio-512k"), optimise=1).to_json()
    found["cycles_per_second"] = round(found["cycles"] / found["seconds"]["run"])
    (HERE / "published.json").write_text(json.dumps(found, indent=2) + "\n")
    print(found)


if __name__ == "__main__":
    main()
