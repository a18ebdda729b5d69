"""Parts of the machine, each placed inside another: as a submodule, or as an instance of a module of its own.

Amaranth writes every submodule out, 2,048 times for 2,048 equal MACs. Parts that are placed as instances are written
once, so that a file has one part, and a compiler sees it once.
"""

from collections import Counter
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal, Shape, Signal
from amaranth.hdl._ir import PortDirection
from amaranth.lib.wiring import Component, In, Out

# Amaranth numbers the bits of ports with 16 bits; a part that has more, clock and reset among them, is written where it
# stands.
_MOST_BITS = 2**16 - 4


class Part(Component):
    """A component that may be looked at without being built; ``clocked`` says whether it has registers."""

    clocked = True
    _MustUse__silence = True


class Library:
    """The parts that were placed, by name; ``separate`` places instances."""

    def __init__(self, *, separate: bool) -> None:
        self.separate = separate
        self.parts: dict[str, Component] = {}
        self.placed: Counter[str] = Counter()

    def place(self, m: Module, part: str, name: str, component: Component) -> Any:
        """Put a part into a module; what comes back has its ports."""
        bits = Counter({In: 0, Out: 0})
        for _, member in _members(component):
            bits[member.flow] += Shape.cast(member.shape).width
        if not self.separate or max(bits.values()) > _MOST_BITS:
            m.submodules[name] = component
            return component
        self.parts.setdefault(part, component)
        self.placed[part] += 1
        ports = {port: Signal(member.shape, name=f"{name}_{port}") for port, member in _members(component)}
        wired = {("o_" if member.flow is Out else "i_") + port: ports[port] for port, member in _members(component)}
        clocked = {"i_clk": ClockSignal(), "i_rst": ResetSignal()} if is_clocked(component) else {}
        m.submodules[name] = Instance(part, **wired, **clocked)
        return SimpleNamespace(**ports)


def ports_of(component: Component) -> dict[str, Any]:
    """The ports of a component with their directions, which Amaranth else guesses from what is driven."""
    ways = {In: PortDirection.Input, Out: PortDirection.Output}
    return {port: (getattr(component, port), ways[member.flow]) for port, member in _members(component)}


def _members(component: Component) -> list[tuple[str, Any]]:
    return list(component.signature.members.items())


def is_clocked(component: Component) -> bool:
    """Whether a component has registers."""
    return not isinstance(component, Part) or component.clocked
