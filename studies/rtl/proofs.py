"""Controllers of random machines, proven by induction: buffers, progress, end; and broken ones, which must fail.

    .venv/bin/python studies/rtl/proofs.py [COUNT]

adds to proofs.jsonl beside this file, one line for every case that is not there yet; it may be stopped at any time.
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from machines import drawn

from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.proof import Claims, prove
from attenio.accelerator.step import Engine
from attenio.errors import InvalidInput

HERE = Path(__file__).parent
CASES = HERE / "proofs.jsonl"
COUNT = 10
DEPTH = 2


def without_waits(design: Design) -> Design:
    """The same controller, whose loads of keys and values wait for nothing."""
    for place in design.nest.places[Engine.HBM]:
        if place.step.name in ("load K", "load V"):
            place.step = replace(place.step, after=())
    return design


def main() -> None:
    """The first seeds whose programs are short enough to be spoken about, as they are and broken."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    known = {json.loads(line)["seed"] for line in CASES.read_text().splitlines()} if CASES.exists() else set()
    seed = -1
    while count:
        seed += 1
        about, design = drawn(seed)
        try:
            Claims(design.nest)
        except InvalidInput:
            continue
        count -= 1
        if seed in known:
            continue
        begun = time.perf_counter()
        proven = prove(design, depth=DEPTH).holds
        seconds = round(time.perf_counter() - begun, 1)
        broken = prove(without_waits(drawn(seed)[1]), depth=DEPTH).holds
        found = {"seed": seed, **about, "steps": design.program.steps, "proven": proven, "broken_proven": broken}
        with CASES.open("a") as file:
            file.write(json.dumps({**found, "depth": DEPTH, "seconds": seconds}) + "\n")
        print(found, seconds, flush=True)


if __name__ == "__main__":
    main()
