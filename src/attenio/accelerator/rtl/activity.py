"""Energy by activity: a netlist of standard cells, run on what its ports saw, and what every change of a net costs.

A change of a net costs half of C V^2 of the pins that it drives, and what the liberty says its cell spends inside, at
the second of the table's slopes. A register's clock pin costs its share in every cycle, whether the register changes or
not; cells leak. There are no wires before layout, and no glitches: a net changes once a cycle or not at all.

Many equal parts are run at once, each a bit of a Python integer.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attenio.accelerator.rtl.timing import Group
from attenio.errors import InvalidInput

# Words of a port: for every cycle one of each part that is run.
Words = list[list[int]]
_PIN = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, kw_only=True)
class Activity:
    """Energy of all parts over all cycles, what they leak in a cycle of a nanosecond, and what came out of them.

    ``clock_net_fj`` is what of ``clock_fj`` is spent by whoever drives the clock. ``changes`` has how often the output
    of every cell changes in a cycle, the mean of all parts.
    """

    cycles: int
    switching_fj: float
    clock_fj: float
    leaking_fj_a_ns: float
    outputs: dict[str, Words]
    clock_net_fj: float
    changes: dict[str, float]

    def joules(self, clock_hz: float) -> float:
        """The whole run at a clock."""
        leaking = self.leaking_fj_a_ns * self.cycles * 1e9 / clock_hz
        return 1e-15 * (self.switching_fj + self.clock_fj + leaking)


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """A cell: functions of its outputs, energy inside by load, capacities; of a register the input and the clock's."""

    functions: dict[str, str]
    inside: dict[str, tuple[list[float], list[float]]]
    capacities: dict[str, float]
    leakage_nw: float
    next_state: str
    clock_fj: float
    clock_net_fj: float


class Netlist:
    """The cells of a module, each after those that drive it."""

    def __init__(self, module: dict[str, Any], liberty: Group) -> None:
        self._ports: dict[str, Any] = module["ports"]
        self._volts = float(liberty.attributes.get("nom_voltage", ["1"])[0])
        known = {group.arguments[0]: group for group in liberty.all("cell")}
        used = {cell["type"] for cell in module["cells"].values()}
        if used - known.keys():
            first = min(used - known.keys())
            raise InvalidInput(f"the library has no cell {first}; use the one that the netlist was made with")
        kinds = {name: _kind(known[name], self._volts) for name in used}
        self._cells = [(kinds[cell["type"]], cell["connections"]) for cell in module["cells"].values()]
        self._named = list(zip(module["cells"], self._cells, strict=True))
        self._registers = [(kind, wires) for kind, wires in self._cells if kind.next_state]
        self._step = self._compiled()

    def run(self, seen: dict[str, Words]) -> Activity:
        """Run as many equal parts as every port has words in a cycle; registers begin with zeros."""
        cycles, parts = len(next(iter(seen.values()))), len(next(iter(seen.values()))[0])
        mask = (1 << parts) - 1
        driven = {wires[pin][0]: (kind, pin) for kind, wires in self._cells for pin in kind.functions if pin in wires}
        highest = max(bit for bit in (*driven, *self._bits("input")) if isinstance(bit, int))
        nets, before = [0] * (highest + 1), [0] * (highest + 1)
        self._clock(nets, [0] * len(self._registers), mask)
        changes = dict.fromkeys(driven, 0)
        outputs: dict[str, Words] = {name: [] for name, port in self._ports.items() if port["direction"] == "output"}
        for cycle in range(cycles):
            for name, words in seen.items():
                for at, bit in enumerate(self._ports[name]["bits"]):
                    nets[bit] = sum((word >> at & 1) << part for part, word in enumerate(words[cycle]))
            following = self._step(nets, mask)
            if cycle:
                for net in changes:
                    changes[net] += (nets[net] ^ before[net]).bit_count()
            before = nets.copy()
            for name, words in outputs.items():
                bits = [_value(nets, bit, mask) for bit in self._ports[name]["bits"]]
                words.append([sum((bit >> part & 1) << at for at, bit in enumerate(bits)) for part in range(parts)])
            self._clock(nets, following, mask)
        loads = self._loads()
        energies = {net: self._change_fj(*driven[net], loads.get(net, 0.0)) for net in changes}
        return Activity(
            cycles=cycles,
            switching_fj=sum(times * energies[net] for net, times in changes.items()),
            clock_fj=parts * cycles * sum(kind.clock_fj for kind, _ in self._registers),
            leaking_fj_a_ns=parts * sum(kind.leakage_nw for kind, _ in self._cells) * 1e-3,
            outputs=outputs,
            clock_net_fj=parts * cycles * sum(kind.clock_net_fj for kind, _ in self._registers),
            changes={name: changes[net] / (parts * cycles) for name, net in self._outputs().items()},
        )

    def _outputs(self) -> dict[str, Any]:
        """The net that every cell drives; registers whose two outputs are both used change both at once."""
        pins = {name: [wires[pin][0] for pin in kind.functions if pin in wires] for name, (kind, wires) in self._named}
        return {name: nets[0] for name, nets in pins.items() if nets}

    def _bits(self, direction: str) -> list[Any]:
        return [bit for port in self._ports.values() if port["direction"] == direction for bit in port["bits"]]

    def _clock(self, nets: list[int], following: list[int], mask: int) -> None:
        for (kind, wires), value in zip(self._registers, following, strict=True):
            for pin, function in kind.functions.items():
                if pin in wires:
                    nets[wires[pin][0]] = value if function == "IQ" else mask ^ value

    def _loads(self) -> dict[Any, float]:
        loads: dict[Any, float] = {}
        for kind, wires in self._cells:
            for pin, capacity in kind.capacities.items():
                if pin in wires:
                    loads[wires[pin][0]] = loads.get(wires[pin][0], 0.0) + capacity
        return loads

    def _change_fj(self, kind: _Kind, pin: str, load: float) -> float:
        inside = float(np.interp(load, *kind.inside[pin])) if pin in kind.inside else 0.0
        return inside + load * self._volts**2 / 2

    def _compiled(self) -> Callable[[list[int], int], list[int]]:
        """A function that sets every net from ports and registers, and gives what registers take."""
        lines, known = ["def step(n, M):"], {*self._bits("input"), "0", "1", "x"}
        known |= {wires[pin][0] for kind, wires in self._registers for pin in kind.functions if pin in wires}
        waiting = [(kind, wires) for kind, wires in self._cells if not kind.next_state]
        while waiting:
            later = []
            for kind, wires in waiting:
                needs = {wires[pin][0] for pin in kind.capacities if pin in wires}
                if needs <= known:
                    outputs = [pin for pin in kind.functions if pin in wires]
                    lines += [f" n[{wires[pin][0]}] = ({_python(kind.functions[pin], wires)}) & M" for pin in outputs]
                    known |= {wires[pin][0] for pin in outputs}
                else:
                    later.append((kind, wires))
            if len(later) == len(waiting):
                raise InvalidInput("the netlist has a loop without a register, or a net that nothing drives")
            waiting = later
        taken = (_python(kind.next_state, wires) for kind, wires in self._registers)
        lines.append(f" return [{', '.join(f'({each}) & M' for each in taken)}]")
        space: dict[str, Any] = {}
        exec("\n".join(lines), space)
        step: Callable[[list[int], int], list[int]] = space["step"]
        return step


def _value(nets: list[int], bit: Any, mask: int) -> int:
    return nets[bit] if isinstance(bit, int) else mask if bit == "1" else 0


def _python(function: str, wires: dict[str, list[Any]]) -> str:
    """A function of a liberty on nets, a bit a part."""

    def net(match: re.Match[str]) -> str:
        bit = wires[match.group()][0]
        return f"n[{bit}]" if isinstance(bit, int) else "M" if bit == "1" else "0"

    return _PIN.sub(net, function).replace("!", "~").replace("*", "&").replace("+", "|")


def _kind(group: Group, volts: float) -> _Kind:
    functions, inside, capacities, clock_fj, clock_net_fj = {}, {}, {}, 0.0, 0.0
    registers = group.all("ff")
    clock = registers[0].attributes["clocked_on"][0] if registers else ""
    for pin in group.all("pin"):
        name = pin.arguments[0]
        if "function" in pin.attributes:
            functions[name] = pin.attributes["function"][0]
            tables = _tables(pin)
            if tables:
                inside[name] = (tables[0][0], np.mean([energies for _, energies in tables], axis=0).tolist())
        elif pin.attributes.get("direction", [""])[0] == "input":
            capacities[name] = float(pin.attributes.get("capacitance", ["0"])[0])
            if name == clock:
                edges = [energies[0] for _, energies in _tables(pin)]
                # a rising and a falling edge a cycle
                clock_net_fj = capacities[name] * volts**2
                clock_fj = 2 * float(np.mean(edges) if edges else 0.0) + clock_net_fj
    return _Kind(
        functions=functions,
        inside=inside,
        capacities=capacities,
        leakage_nw=float(group.attributes.get("cell_leakage_power", ["0"])[0]),
        next_state=registers[0].attributes["next_state"][0] if registers else "",
        clock_fj=clock_fj,
        clock_net_fj=clock_net_fj,
    )


def _tables(pin: Group) -> list[tuple[list[float], list[float]]]:
    """Loads and energies of every table of a pin, at its second slope; of a clock pin, which has no load, at one."""
    found = []
    for power in pin.all("internal_power"):
        for table in (*power.all("rise_power"), *power.all("fall_power")):
            rows = [[float(each) for each in row.replace(",", " ").split()] for row in table.attributes["values"]]
            loads = [float(each) for each in " ".join(table.attributes.get("index_2", [])).replace(",", " ").split()]
            if loads and len(rows) > 1:
                found.append((loads, rows[1]))
            elif not loads:
                found.append(([0.0], rows[0][1:2] or rows[0]))
    return found
