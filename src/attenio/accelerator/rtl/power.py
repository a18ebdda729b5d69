"""Energy of a run by activity, part by part: netlists on what their ports saw, beside OpenSTA and the simulator.

MACs and EXP modules are synthesised, run gate by gate on the waves of a run of the whole machine, and every change of a
net is counted (``activity``). OpenSTA, where it is installed, says what a change of every cell costs with the slopes of
its inputs; the changes are those of the run. It knows no clock tree either: what registers take from whoever drives the
clock is added to both.

From one process to another energies are scaled by capacities, which go with the feature size, and the square of the
voltage:

>>> round(scaled_joules(1.0, from_nm=45, volts=1.1), 3)
0.259
"""

import json
import re
import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from attenio.accelerator.energy import Component, energy_of
from attenio.accelerator.rtl.activity import Activity, Netlist
from attenio.accelerator.rtl.area import write_netlist
from attenio.accelerator.rtl.build import Built, built
from attenio.accelerator.rtl.check import check
from attenio.accelerator.rtl.design import Design
from attenio.accelerator.rtl.installed import CellPower, cell_powers
from attenio.accelerator.rtl.timing import Group, picoseconds, read_liberty
from attenio.accelerator.rtl.waves import Waves
from attenio.errors import DoesNotFit

# Gates are run one by one: cycles of MACs that take minutes.
MOST_MAC_CYCLES = 200_000
_PUBLISHED_NM, _PUBLISHED_VOLTS = 22, 0.8
_WIRES = re.compile(r"default_wire_load\s*:[^;]*;")


@dataclass(frozen=True, kw_only=True)
class PartPower:
    """Joules of all instances of a part over a run, by several counts.

    ``changing``, ``clock`` and ``leaking`` are our own and add up to ``joules``. ``sta_joules`` is OpenSTA's without
    wires, as ours is, and ``sta_wired_joules`` with the wires that the liberty expects by fan-out; None where it is not
    installed. ``words_wrong`` counts words of the netlist that are not those of the hardware.
    """

    component: Component
    part: str
    instances: int
    cycles: int
    changing: float
    clock: float
    leaking: float
    sta_joules: float | None
    sta_wired_joules: float | None
    simulated_joules: float
    words: int
    words_wrong: int

    @property
    def joules(self) -> float:
        """Our own count."""
        return self.changing + self.clock + self.leaking


def check_power(design: Design) -> None:
    """Refuse runs whose gates would take hours."""
    cycles = design.hardware.pe.macs * sum(int(step.cycles) for step in design.program)
    if cycles > MOST_MAC_CYCLES:
        raise DoesNotFit(
            f"power is counted gate by gate, and {design.hardware.pe.macs:,} MACs have up to {cycles:,} cycles in this"
            f" run, more than {MOST_MAC_CYCLES:,}; use a smaller array or a smaller n"
        )


def machine_power(design: Design, liberty: Path) -> tuple[PartPower, ...]:
    """The array and the EXP unit of a design over its run on random inputs."""
    check_power(design)
    cells, made = read_liberty(liberty), built(design)
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        run = check(design, vcd=Path(scratch) / "waves.vcd")
        waves = Waves(Path(scratch) / "waves.vcd")
        simulated = dict(energy_of(design.hardware, design.program.work, Fraction(run.cycles)).joules)
        array = "word_mac" if design.along_rows else "mac"
        for component, part, called in ((Component.PE, array, "mac_"), (Component.EXP, "exp_module", "module_")):
            folder = Path(scratch) / part
            folder.mkdir()
            write_netlist(made, part, liberty, folder)
            measured = _Measured(made, part, folder, cells, design.hardware.clock_hz)
            found.append(measured.on(waves, called, component, simulated[component]))
    return tuple(found)


def scaled_joules(joules: float, *, from_nm: float, volts: float) -> float:
    """An energy of a process and its voltage at 22 nm and 0.8 V."""
    return joules * _PUBLISHED_NM / from_nm * (_PUBLISHED_VOLTS / volts) ** 2


def volts_of(cells: Group) -> float:
    """The voltage of a liberty."""
    return float(cells.attributes.get("nom_voltage", ["1"])[0])


class _Measured:
    """A netlist in a folder, and what it costs on what its instances saw."""

    def __init__(self, made: Built, part: str, folder: Path, cells: Group, clock_hz: float) -> None:
        self._part, self._folder, self._cells, self._clock_hz = part, folder, cells, clock_hz
        self._clocked = "\\clk" in made.parts[part]
        self._module = json.loads((folder / "netlist.json").read_text())["modules"][part]

    def on(self, waves: Waves, called: str, component: Component, simulated: float) -> PartPower:
        """All instances whose names begin so."""
        ports = self._module["ports"].items()
        inputs = [name for name, port in ports if port["direction"] == "input" and name not in ("clk", "rst")]
        places = waves.places(inputs[0], called)
        found = Netlist(self._module, self._cells).run({name: waves.words(places, name) for name in inputs})
        pairs = [
            (one, other)
            for name, words in found.outputs.items()
            for ours, theirs in zip(words, waves.words(places, name), strict=True)
            for one, other in zip(ours, theirs, strict=True)
        ]
        seconds = len(places) * found.cycles / self._clock_hz
        return PartPower(
            component=component,
            part=self._part,
            instances=len(places),
            cycles=found.cycles,
            changing=1e-15 * found.switching_fj,
            clock=1e-15 * found.clock_fj,
            leaking=1e-6 * found.leaking_fj_a_ns * found.cycles / self._clock_hz,
            sta_wired_joules=self._by_sta(found, seconds),
            sta_joules=self._by_sta(found, seconds, wires=False),
            simulated_joules=simulated,
            words=len(pairs),
            words_wrong=sum(one != other for one, other in pairs),
        )

    def _by_sta(self, found: Activity, seconds: float, *, wires: bool = True) -> float | None:
        """OpenSTA's joules of so many seconds of all instances; None where it is not installed."""
        if not wires:
            kept = self._folder / "cells.lib"
            kept.write_text(_WIRES.sub("", kept.read_text(errors="replace")))
        period = 1e12 / self._clock_hz / picoseconds(self._cells)
        powers = cell_powers(self._folder, self._part, period=period, clocked=self._clocked)
        return None if powers is None else joules_of(powers, found, seconds)


def joules_of(powers: dict[str, CellPower], found: Activity, seconds: float) -> float:
    """What cells cost with the changes of a run, and the clock's wires."""
    watts = sum(
        power.changing * found.changes.get(name, 0.0) + power.clock + power.leaking for name, power in powers.items()
    )
    return watts * seconds + 1e-15 * found.clock_net_fj
