"""Figures 10 to 17, energy and table 3 once more, with the silicon that the hardware needs at 1 GHz.

    .venv/bin/python studies/rtl/figures.py

writes figures.json beside this file: every number of every figure with the silicon of the published cycles, with what
was measured of ours (loops.json, scaled to 22 nm), and with each parameter alone. Figure 11 counts words, which silicon
does not move.

Expected before it ran: steps of the array become longer by constants, so that narrow heads lose more; AttenIO, whose
rounds are one key, loses most, since others pay the same constants once for many keys.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from attenio.accelerator import fastest_plan, simulate_plan
from attenio.accelerator.rtl.small import made_of
from attenio.catalogue import machine_named
from attenio.machine import Machine
from attenio.parts import SiliconParts
from attenio.report import experiments

HERE = Path(__file__).parent
# Sums of 4 cycles; a register behind the bank and three behind the second multiplier; five more in an EXP module.
NEEDED = SiliconParts(adder_cycles=4, fill_cycles=4, exp_fill_cycles=5, multipliers=2, macs_a_divider=32)
# The same MAC without its second multiplier, which needs no registers behind it; an odd latency, for banks of one port.
SMALLER = replace(NEEDED, fill_cycles=2, multipliers=1)
CASES = {
    "published": SiliconParts(),
    "needed": NEEDED,
    "one multiplier": SMALLER,
    "adder_cycles": SiliconParts(adder_cycles=4),
    "fill_cycles": SiliconParts(fill_cycles=4),
    "exp_fill_cycles": SiliconParts(exp_fill_cycles=5),
    "multipliers": SiliconParts(multipliers=1),
    "macs_a_divider": SiliconParts(macs_a_divider=32),
}
ALL = ("published", "needed", "one multiplier")


def figures(silicon: SiliconParts, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Every number of some figures, on machines of some silicon."""

    def made(name: str | Machine) -> Machine:
        machine = machine_named(name) if isinstance(name, str) else name
        return machine if machine.accelerator is None else made_of(machine, silicon)

    saved = {each: getattr(experiments, each) for each in ("machine_named", "simulate_plan", "fastest_plan")}
    experiments.machine_named = made  # type: ignore[attr-defined]
    experiments.simulate_plan = lambda plan, machine: simulate_plan(plan, made(machine))  # type: ignore[attr-defined]
    experiments.fastest_plan = lambda work, machine: fastest_plan(work, made(machine))  # type: ignore[attr-defined]
    for cached in ("_run", "_fastest_cycles", "_cycles_of_whole_rows"):
        getattr(experiments, cached).cache_clear()
    try:
        return [row.to_json() for name in names for row in experiments.experiment(name).rows]
    finally:
        for name, function in saved.items():
            setattr(experiments, name, function)


def main() -> None:
    """All figures with all that is needed; the first and the energy with each parameter alone."""
    found = {}
    for name, silicon in CASES.items():
        rows = figures(silicon, experiments.EXPERIMENTS if name in ALL else ("fig10", "table3"))
        found[name] = {"silicon": asdict(silicon), "rows": rows}
        (HERE / "figures.json").write_text(json.dumps(found) + "\n")
        print(name, len(rows), flush=True)


if __name__ == "__main__":
    main()
