"""The paper's comparison once more, at the clock that the MAC reached: what moves in the simulator, and what does not.

    .venv/bin/python studies/rtl/clock.py

writes clock.json beside this file, from the longest paths in areas.json.

Expected before it ran: at a tenth of the clock the memory is ten times as fast for the array, so that nobody waits for
it any more. AttenIO, which hides it already, gains little in utilisation; the others gain, and speedups shrink.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from attenio.accelerator import simulate
from attenio.catalogue import machine_named
from attenio.machine import Machine
from attenio.workload import Workload

HERE = Path(__file__).parent
LENGTHS = (4096, 32768, 131072)
DATAFLOWS = ("attenio", "flash-attention-2", "flat", "standard")


def clocked(hz: int) -> Machine:
    """The published machine at another clock."""
    machine = machine_named("attenio-512k")
    assert machine.accelerator is not None
    return replace(
        machine, flops_per_s={}, exponentials_per_s=None, accelerator=replace(machine.accelerator, clock_hz=hz)
    )


def compared(hz: int) -> list[dict[str, Any]]:
    """Cycles, utilisation and energy of every dataflow at every length."""
    rows = []
    for n in LENGTHS:
        for dataflow in DATAFLOWS:
            done = simulate(Workload(n=n, d=64), clocked(hz), dataflow=dataflow)
            rows.append(
                {
                    "n": n,
                    "dataflow": dataflow,
                    "cycles": done.whole_cycles,
                    "pe_utilisation": round(done.pe_utilisation, 4),
                    "stall_fraction": round(done.stall_fraction, 4),
                    "joules": done.energy.total_joules,
                }
            )
    return rows


def main() -> None:
    """At 1 GHz, at the clock of the whole MAC, and at that of its multiply-add alone."""
    parts = json.loads((HERE / "areas.json").read_text())["parts"]
    clocks = {"published": 10**9}
    for name in ("fp16_multiply_add", "mac"):
        clocks[name] = round(1e12 / parts[name].get("sta_path_ps", parts[name]["path_ps"]))
    found = {name: {"clock_hz": hz, "rows": compared(hz)} for name, hz in clocks.items()}
    (HERE / "clock.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
