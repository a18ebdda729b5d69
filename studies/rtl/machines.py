"""Random accelerators and workloads, each built, run and compared with the simulator.

    .venv/bin/python studies/rtl/machines.py [COUNT]

adds to machines.jsonl beside this file, one line for every case that is not there yet; it may be stopped at any time.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

from attenio.accelerator.rtl.check import check
from attenio.accelerator.rtl.design import Design
from attenio.errors import AttenioError
from attenio.machine import Machine, MemoryLevel
from attenio.parts import AcceleratorParts, HbmParts
from attenio.workload import Workload

HERE = Path(__file__).parent
CASES = HERE / "machines.jsonl"
COUNT = 200
MOST_CYCLES = 6000


def drawn(seed: int) -> tuple[dict[str, Any], Design]:
    """The first machine and workload of a seed that can be built and are short."""
    rng = random.Random(seed)
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
            design = Design.of(Workload(**shape), machine_of(sizes, seed, max(d, value_dim)))
        except AttenioError:
            continue
        if design.program.steps * 20 < MOST_CYCLES:
            return {**sizes, **shape}, design


def machine_of(sizes: dict[str, int], seed: int, width: int) -> Machine:
    """The machine of some sizes; every burst is a word, so that all times are whole."""
    parts = AcceleratorParts(
        pe_lines=sizes["pe_lines"],
        macs_per_line=sizes["macs_per_line"],
        exp_modules=sizes["exp_modules"],
        kv_buffer_bytes=2 * width,
        hbm=HbmParts(
            channels=1,
            burst_bytes=2 * sizes["words_a_cycle"],
            page_bytes=64,
            row_precharge_ns=sizes["precharge_cycles"],
            row_activate_ns=1,
            read_latency_ns=2,
            four_activates_ns=0,
            refresh_ns=0,
        ),
    )
    levels = (
        MemoryLevel(name="cache", capacity_bytes=2 * sizes["cache_words"]),
        MemoryLevel(name="HBM", bandwidth_bytes_per_s=2 * sizes["words_a_cycle"] * 10**9),
    )
    return Machine(name=f"random-{seed}", levels=levels, accelerator=parts)


def main() -> None:
    """Every case that is missing, in order."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    known = {json.loads(line)["seed"] for line in CASES.read_text().splitlines()} if CASES.exists() else set()
    for seed in range(count):
        if seed in known:
            continue
        about, design = drawn(seed)
        found = check(design, seed=seed).to_json()
        kept = ("steps", "steps_equal", "words", "words_equal", "cycles", "seconds", "first_step", "first_word")
        with CASES.open("a") as file:
            file.write(
                json.dumps({"seed": seed, **about, **{name: found[name] for name in kept if name in found}}) + "\n"
            )
        print(seed, about, found["steps_equal"], found["words_equal"], found["cycles"], flush=True)


if __name__ == "__main__":
    main()
