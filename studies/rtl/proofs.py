"""Controllers of random machines, proven by induction: buffers, progress, end; and broken ones, which must fail.

    .venv/bin/python studies/rtl/proofs.py [COUNT [DATAFLOW...]] [--growing]

adds to proofs.jsonl beside this file, one line for every case that is not there yet; it may be stopped at any time.
With --growing only machines whose steps grow from tile to tile are drawn.
"""

import json
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

from machines import drawn

from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.proof import Claims, blocks_of, prove
from attenio.accelerator.step import Engine
from attenio.errors import InvalidInput

HERE = Path(__file__).parent
CASES = HERE / "proofs.jsonl"
COUNT = 10
DEPTH = 2


def without_waits(design: Design) -> Design:
    """The same controller, whose loads of what every round loads wait for nothing."""
    loads = {name for fills, _ in blocks_of(design.plan.dataflow) for name in fills.split(", ")}
    for place in design.nest.places[Engine.HBM]:
        if place.step.name in loads:
            place.step = replace(place.step, after=())
    return design


def fills(design: Design) -> int:
    """How often the block that is filled most is filled: what is filled once cannot be overwritten."""
    root = design.nest.root
    return max(sum(root.runs(name, 1)[0] for name in names.split(", ")) for names, _ in blocks_of(design.plan.dataflow))


def main() -> None:
    """The first seeds whose programs are short enough to be spoken about, as they are and broken."""
    growing, given = "--growing" in sys.argv, [each for each in sys.argv[1:] if each != "--growing"]
    count, dataflows = int(given[0]) if given else COUNT, given[1:] or ["attenio"]
    cases = [json.loads(line) for line in CASES.read_text().splitlines()] if CASES.exists() else []
    known = {(case.get("dataflow", "attenio"), case["seed"], case.get("growing", False)) for case in cases}
    left = dict.fromkeys(dataflows, count)
    for seed, dataflow in product(range(10**6), dataflows):
        if not any(left.values()):
            break
        about, design = drawn(seed, dataflow, growing=growing)
        try:
            Claims(design.nest, ())
        except InvalidInput:
            continue
        if not left[dataflow]:
            continue
        left[dataflow] -= 1
        if (dataflow, seed, growing) in known:
            continue
        begun = time.perf_counter()
        proven = prove(design, depth=DEPTH).holds
        seconds = round(time.perf_counter() - begun, 1)
        broken = prove(without_waits(drawn(seed, dataflow, growing=growing)[1]), depth=DEPTH).holds
        found = {
            "seed": seed,
            "dataflow": dataflow,
            "growing": growing,
            **about,
            "steps": design.program.steps,
            "fills": fills(design),
            "proven": proven,
            "broken_proven": broken,
        }
        with CASES.open("a") as file:
            file.write(json.dumps({**found, "depth": DEPTH, "seconds": seconds}) + "\n")
        print(found, seconds, flush=True)


if __name__ == "__main__":
    main()
