"""The energy of one run by activity, beside OpenSTA's and the simulator's: netlists on what their ports saw.

    .venv/bin/python studies/rtl/energy.py LIBERTY

writes energy.json beside this file. Gate by gate, netlists also give the words of the hardware they were made from.
Every OpenSTA that PATH has as ``sta`` adds its own numbers; those of other versions stay.
"""

import json
import sys
from pathlib import Path
from typing import Any

from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.installed import sta_version
from attenio.accelerator.rtl.power import PartPower, machine_power
from attenio.accelerator.rtl.small import small_machine
from attenio.accelerator.rtl.timing import read_liberty
from attenio.machine import Machine
from attenio.workload import Workload

HERE = Path(__file__).parent
WORKLOAD = Workload(n=8, d=8)


def machine() -> Machine:
    """Four MACs and two EXP modules, all times whole."""
    return small_machine(cache_words=80, rate=2)


def told(found: PartPower) -> dict[str, Any]:
    """What is kept of a part."""
    names = ("instances", "changing", "clock", "leaking", "joules", "simulated_joules", "words", "words_wrong")
    return {name: getattr(found, name) for name in names}


def main() -> None:
    """Run, synthesise, run gate by gate, compare."""
    liberty, kept = Path(sys.argv[1]), HERE / "energy.json"
    before = json.loads(kept.read_text()) if kept.exists() else {}
    found = machine_power(Design.of(WORKLOAD, machine()), liberty)
    parts = {each.component.value: told(each) for each in found}
    results = {
        "workload": str(WORKLOAD),
        "library": read_liberty(liberty).arguments[0],
        "cycles": found[0].cycles,
        "parts": parts,
        "sta": before.get("sta", {}),
    }
    version = sta_version()
    if version is not None:
        results["sta"][version] = {
            each.component.value: {"joules": each.sta_joules, "wired_joules": each.sta_wired_joules} for each in found
        }
    kept.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
