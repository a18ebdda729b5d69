"""Random accelerators and workloads, each built, run and compared with the simulator.

    .venv/bin/python studies/rtl/machines.py [COUNT [DATAFLOW...]] [--growing]

adds to machines.jsonl beside this file, one line for every case that is not there yet; it may be stopped at any time.
With dataflows, such as flat, that many machines of each are drawn; with --growing only such whose steps grow from tile
to tile. What a seed draws and what is refused or too long before it are counted with it, so that nothing is left out
without a word.
"""

import json
import os
import random
import re
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

from attenio.accelerator.rtl.check import check
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.small import small_machine
from attenio.errors import AttenioError
from attenio.machine import Machine
from attenio.workload import Workload

HERE = Path(__file__).parent
CASES = HERE / "machines.jsonl"
COUNT = 200
MOST_CYCLES = 6000


def drawn(seed: int, dataflow: str = "attenio", *, growing: bool = False) -> tuple[dict[str, Any], Design]:
    """The first machine and workload of a seed that can be built and are short; ``passed`` has why others were not.

    Where steps are to grow, those of the same length everywhere are passed without being counted.
    """
    rng, passed = random.Random(seed), Counter[str]()
    while True:
        lines, macs = rng.randint(1, 8), rng.randint(1, 8)
        d, value_dim, n = rng.randint(1, 12), rng.randint(1, 12), rng.randint(2, 24)
        sizes = {
            "pe_lines": lines,
            "macs_per_line": macs,
            "exp_modules": rng.choice([each for each in range(1, lines * macs + 1) if lines * macs % each == 0]),
            "cache_words": (2 * max(d, value_dim) + 6) * rng.choice((rng.randint(1, 6), rng.randint(1, 40))),
            "words_a_cycle": rng.choice((1, 2, 4)),
            "precharge_cycles": rng.randint(0, 4),
        }
        shape = {
            "queries": n,
            "keys": rng.randint(1, 24),
            "d": d,
            "value_dim": value_dim,
            "heads": rng.choice((1, 1, 2)),
            "mask": rng.choice(("dense", "causal", "causal", f"window:{rng.randint(1, 8)}")),
        }
        try:
            design = Design.of(Workload(**shape), machine_of(sizes), dataflow)
        except AttenioError as error:
            passed[re.sub(r"\d[\d,]*", "N", str(error))] += 1
            continue
        if growing and not design.nest.written_out:
            continue
        if design.program.steps * 20 < MOST_CYCLES:
            return {**sizes, **shape, "rounds_written_out": design.nest.written_out, "passed": dict(passed)}, design
        passed["long"] += 1


def machine_of(sizes: dict[str, int]) -> Machine:
    """The machine of some sizes; every burst is a word, so that all times are whole."""
    return small_machine(
        lines=sizes["pe_lines"],
        macs=sizes["macs_per_line"],
        modules=sizes["exp_modules"],
        cache_words=sizes["cache_words"],
        rate=sizes["words_a_cycle"],
        miss_cycles=sizes["precharge_cycles"] + 3,
    )


def main() -> None:
    """Every case that is missing, in order."""
    growing, given = "--growing" in sys.argv, [each for each in sys.argv[1:] if each != "--growing"]
    count, dataflows = int(given[0]) if given else COUNT, given[1:] or ["attenio"]
    cases = [json.loads(line) for line in CASES.read_text().splitlines()] if CASES.exists() else []
    known = {(case.get("dataflow", "attenio"), case["seed"], case.get("growing", False)) for case in cases}
    for seed, dataflow in product(range(count), dataflows):
        if (dataflow, seed, growing) in known:
            continue
        about, design = drawn(seed, dataflow, growing=growing)
        begun = sum(os.times()[:4])
        found = check(design, seed=seed).to_json()
        kept = ("steps", "steps_equal", "words", "words_equal", "cycles", "seconds", "first_step", "first_word")
        found["seconds"]["processor"] = round(sum(os.times()[:4]) - begun, 3)
        line = {"seed": seed, "dataflow": dataflow, "growing": growing, **about}
        line |= {name: found[name] for name in kept if name in found}
        with CASES.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(seed, dataflow, about, found["steps_equal"], found["words_equal"], found["cycles"], flush=True)


if __name__ == "__main__":
    main()
