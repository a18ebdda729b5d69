"""The energy of one run by activity, beside the simulator's: netlists of MACs and EXP modules on what their ports saw.

    .venv/bin/python studies/rtl/energy.py LIBERTY

writes energy.json beside this file. Gate by gate, netlists also give the words of the hardware they were made from.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from attenio.accelerator.energy import Component, energy_of
from attenio.accelerator.rtl.activity import Netlist
from attenio.accelerator.rtl.area import write_netlist
from attenio.accelerator.rtl.build import built
from attenio.accelerator.rtl.check import check
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.small import small_machine
from attenio.accelerator.rtl.timing import Group, read_liberty
from attenio.accelerator.rtl.waves import Waves
from attenio.machine import Machine
from attenio.workload import Workload

HERE = Path(__file__).parent
WORKLOAD = Workload(n=8, d=8)
CLOCK_HZ = 10**9
# The parts of table 3, each with a port by which its instances are found in the waves, and how these are called.
PARTS = {Component.PE: ("mac", "q", "mac_"), Component.EXP: ("exp_module", "subtrahend", "module_")}


def machine() -> Machine:
    """Four MACs and two EXP modules, all times whole."""
    return small_machine(cache_words=80, rate=2)


def measured(netlist: dict[str, Any], waves: Waves, cells: Group, port: str, called: str) -> dict[str, Any]:
    """Energies of all instances of a part, and how many words of its outputs are not those of the waves."""
    places = waves.places(port, called)
    inputs = [name for name, about in netlist["ports"].items() if about["direction"] == "input"]
    seen = {name: waves.words(places, name) for name in inputs if name not in ("clk", "rst")}
    found = Netlist(netlist, cells).run(seen)
    wrong = sum(
        one != other
        for name, words in found.outputs.items()
        for ours, theirs in zip(words, waves.words(places, name), strict=True)
        for one, other in zip(ours, theirs, strict=True)
    )
    return {
        "instances": len(places),
        "switching_fj": found.switching_fj,
        "clock_fj": found.clock_fj,
        "leaking_fj": found.leaking_fj_a_ns * found.cycles * 1e9 / CLOCK_HZ,
        "joules": found.joules(CLOCK_HZ),
        "words_wrong": wrong,
        "words": len(found.outputs) * found.cycles * len(places),
    }


def main() -> None:
    """Run, synthesise, run gate by gate, compare."""
    liberty = Path(sys.argv[1])
    cells, design = read_liberty(liberty), Design.of(WORKLOAD, machine())
    made = built(design)
    results: dict[str, Any] = {"workload": str(WORKLOAD), "library": cells.arguments[0], "parts": {}}
    with tempfile.TemporaryDirectory() as scratch:
        run = check(design, vcd=Path(scratch) / "waves.vcd")
        waves = Waves(Path(scratch) / "waves.vcd")
        results["cycles"] = run.cycles
        simulated = dict(energy_of(design.hardware, design.program.work, run.cycles).joules)
        for component, (part, port, called) in PARTS.items():
            folder = Path(scratch) / part
            folder.mkdir()
            write_netlist(made, part, liberty, folder)
            netlist = json.loads((folder / "netlist.json").read_text())["modules"][part]
            found = measured(netlist, waves, cells, port, called)
            results["parts"][component.value] = {**found, "simulated_joules": simulated[component]}
            print(component.value, results["parts"][component.value], flush=True)
    (HERE / "energy.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
