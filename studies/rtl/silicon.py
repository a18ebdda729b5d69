"""Random accelerators of random silicon, each built, run and compared with the simulator.

    .venv/bin/python studies/rtl/silicon.py [COUNT]

adds to silicon.jsonl beside this file, one line for every case that is not there yet; it may be stopped at any time.
Machines and workloads are those of machines.py with the same seeds, AttenIO's, up to 24 MACs; the silicon is drawn
beside them.
"""

import json
import random
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from machines import drawn, machine_of

from attenio.accelerator.rtl.check import check
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.small import made_of
from attenio.errors import AttenioError
from attenio.parts import SiliconParts
from attenio.workload import Workload

CASES = Path(__file__).parent / "silicon.jsonl"
COUNT = 40
MOST_MACS = 24
_SHAPE = ("queries", "keys", "d", "value_dim", "heads", "mask")


def made(seed: int) -> tuple[dict[str, Any], Design | str]:
    """The machine of a seed with silicon of its own; in place of a design that cannot be built, why not."""
    about, _ = drawn(seed)
    rng = random.Random(f"silicon {seed}")
    silicon = SiliconParts(
        adder_cycles=rng.choice((1, 2, 4)),
        fill_cycles=rng.randint(0, 4),
        exp_fill_cycles=rng.randint(0, 4),
        multipliers=rng.randint(1, 2),
        macs_a_divider=rng.choice([each for each in (1, 2, 3, 8) if each <= about["macs_per_line"]]),
    )
    about = {**about, **asdict(silicon)}
    if about["pe_lines"] * about["macs_per_line"] > MOST_MACS:
        return about, "large"
    try:
        return about, Design.of(Workload(**{name: about[name] for name in _SHAPE}), made_of(machine_of(about), silicon))
    except AttenioError as error:
        return about, str(error)


def main() -> None:
    """Every case that is missing, in order, until there are as many as asked for."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    cases = [json.loads(line) for line in CASES.read_text().splitlines()] if CASES.exists() else []
    seed = max((case["seed"] for case in cases), default=-1) + 1
    built = sum("refused" not in case for case in cases)
    while built < count:
        about, design = made(seed)
        line: dict[str, Any] = {"seed": seed, **about}
        if isinstance(design, Design):
            found, built = check(design, seed=seed).to_json(), built + 1
            kept = ("steps", "steps_equal", "words", "words_equal", "cycles", "first_step", "first_word")
            line |= {name: found[name] for name in kept if name in found}
        else:
            line["refused"] = design
        with CASES.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(line, flush=True)
        seed += 1


if __name__ == "__main__":
    main()
