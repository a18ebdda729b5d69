"""The longest path of a netlist of standard cells, to first order: loads count, and all edges are equally steep.

A liberty has the delay of a cell for the slope of its input and the load of its output. Here the slope is one that
cells of a synthesised netlist have, the second entry of the table, and the load is the pins that the output drives.
There are no wires before layout. OpenSTA does better where it is installed; this needs nothing.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from attenio.errors import InvalidInput

_TOKEN = re.compile(r'"[^"]*"|[\w.+\-*/\[\]]+|[(){}:;,]')


@dataclass
class Group:
    """A group of a liberty: its kind, its arguments, simple attributes, and groups inside."""

    kind: str
    arguments: list[str]
    attributes: dict[str, list[str]] = field(default_factory=dict)
    groups: list["Group"] = field(default_factory=list)

    def all(self, kind: str) -> list["Group"]:
        """The groups of a kind inside."""
        return [group for group in self.groups if group.kind == kind]


def read_liberty(path: Path) -> Group:
    """A liberty as nested groups."""
    if not path.is_file():
        raise InvalidInput(f"{path} is no file; give a liberty of standard cells, or fetch one with --fetch-liberty")
    text = re.sub(r"/\*.*?\*/", "", path.read_text(errors="replace"), flags=re.DOTALL).replace("\\\n", " ")
    tokens = (match.group().strip('"') if match.group() != '""' else "" for match in _TOKEN.finditer(text))
    outer = Group("file", [])
    try:
        _read(tokens, outer)
    except StopIteration:
        raise InvalidInput(f"{path} ends in the middle of a group; give a whole liberty of standard cells") from None
    libraries = outer.all("library")
    if not libraries or not libraries[0].all("cell"):
        raise InvalidInput(f"{path} has no cells; give a liberty of standard cells")
    return libraries[0]


def _read(tokens: Iterator[str], group: Group) -> None:
    for name in tokens:
        if name == "}":
            return
        if name == ";":
            continue
        mark = next(tokens)
        if mark == ":":
            value = []
            for token in tokens:
                if token == ";":
                    break
                value.append(token)
            group.attributes[name] = value
        elif mark == "(":
            arguments = []
            for token in tokens:
                if token == ")":
                    break
                if token != ",":
                    arguments.append(token)
            after = next(tokens)
            if after == "{":
                inner = Group(name, arguments)
                group.groups.append(inner)
                _read(tokens, inner)
            else:
                group.attributes[name] = arguments


@dataclass(frozen=True)
class _Arc:
    pin: str
    loads: Any
    delays: Any


@dataclass(frozen=True)
class _Cell:
    inputs: dict[str, float]
    outputs: dict[str, tuple[_Arc, ...]]
    registered: bool


def longest_path_ps(netlist: Path, liberty: Group, module: str, *, port: str | None = None) -> float:
    """The longest path of a module from a register or port to another, or from one port alone."""
    return max(0.0, *_Paths(netlist, liberty, module, port).arrivals.values(), 0.0) * picoseconds(liberty)


def stage_registers(netlist: Path, liberty: Group, module: str, period_ps: float) -> int:
    """Registers that cut a module's paths into stages of a period: nets that are needed beyond the end of a stage."""
    paths, unit = _Paths(netlist, liberty, module), picoseconds(liberty)
    needed: dict[Any, float] = {}
    for cell, kind in paths.cells:
        ends = [paths.arrivals[cell[pin][0]] for pin in kind.outputs if pin in cell and not kind.registered]
        for pin in kind.inputs:
            if pin in cell and ends:
                needed[cell[pin][0]] = max(needed.get(cell[pin][0], 0.0), *ends)
    stages = int(max(paths.arrivals.values(), default=0.0) * unit / period_ps)
    ends_of_stages = [period_ps * number / unit for number in range(1, stages + 1)]
    return sum(paths.arrivals.get(net, 0.0) <= end < last for end in ends_of_stages for net, last in needed.items())


class _Paths:
    """When every net of a module has settled, from the clock or the ports on, or from one port alone."""

    def __init__(self, netlist: Path, liberty: Group, module: str, port: str | None = None) -> None:
        kinds = {group.arguments[0]: _cell(group) for group in liberty.all("cell")}
        about = json.loads(netlist.read_text())["modules"][module]
        made = about["cells"].values()
        self._begin = None if port is None else set(about["ports"][port]["bits"])
        self.cells = [(cell["connections"], kinds[cell["type"]]) for cell in made if cell["type"] in kinds]
        self._loads: dict[Any, float] = {}
        self._drivers: dict[Any, tuple[dict[str, Any], _Cell, str]] = {}
        for cell, kind in self.cells:
            for pin, (net, *_) in cell.items():
                if pin in kind.inputs:
                    self._loads[net] = self._loads.get(net, 0.0) + kind.inputs[pin]
                elif pin in kind.outputs:
                    self._drivers[net] = (cell, kind, pin)
        self.arrivals: dict[Any, float] = {}
        for start in self._drivers:
            self._settle(start)

    def _settle(self, start: Any) -> None:
        """A net and those before it, depth first, without recursion: paths have a hundred cells."""
        waiting = [start]
        while waiting:
            net = waiting[-1]
            cell, kind, pin = self._drivers[net]
            sources = {arc.pin: cell[arc.pin][0] for arc in kind.outputs[pin]}
            missing = [each for each in sources.values() if each in self._drivers and each not in self.arrivals]
            if missing and not kind.registered:
                waiting.extend(missing)
                continue
            waiting.pop()
            begins = {
                each: self._begins(at) if kind.registered else self.arrivals.get(at, self._begins(at))
                for each, at in sources.items()
            }
            load = self._loads.get(net, 0.0)
            ends = [begins[arc.pin] + float(np.interp(load, arc.loads, arc.delays)) for arc in kind.outputs[pin]]
            self.arrivals[net] = max(ends, default=0.0)

    def _begins(self, net: Any) -> float:
        """When a net that nothing drives has settled; never where only one port is asked about and it is another."""
        return 0.0 if self._begin is None or net in self._begin else -inf


def _cell(group: Group) -> _Cell:
    inputs: dict[str, float] = {}
    outputs: dict[str, tuple[_Arc, ...]] = {}
    for pin in group.all("pin"):
        name, direction = pin.arguments[0], pin.attributes.get("direction", [""])[0]
        if direction == "input":
            inputs[name] = float(pin.attributes.get("capacitance", ["0"])[0])
        elif direction == "output":
            outputs[name] = tuple(_arcs(pin))
    return _Cell(inputs, outputs, bool(group.all("ff") or group.all("latch")))


def _arcs(pin: Group) -> Iterator[_Arc]:
    for timing in pin.all("timing"):
        for table in (*timing.all("cell_rise"), *timing.all("cell_fall")):
            rows = [[float(each) for each in row.replace(",", " ").split()] for row in table.attributes["values"]]
            loads = [float(each) for each in " ".join(table.attributes.get("index_2", [])).replace(",", " ").split()]
            related = timing.attributes.get("related_pin", [""])[0].split()
            if loads and related and len(rows) > 1 and len(rows[1]) == len(loads):
                yield _Arc(related[0], loads, rows[1])


def picoseconds(liberty: Group) -> float:
    """The liberty's unit of time."""
    unit = "".join(liberty.attributes.get("time_unit", ["1ns"]))
    number, scale = re.fullmatch(r"([\d.]+)\s*(\w+)", unit).groups()  # type: ignore[union-attr]
    return float(number) * {"ns": 1000.0, "ps": 1.0}[scale]
