"""Registers one behind the other: a value some cycles later. Synthesis may move them into what stands beside them."""

from typing import Any

from amaranth.hdl import Module, Signal, Value


def delayed(m: Module, value: Any, cycles: int, name: str) -> Value:
    """A value so many cycles later; itself where there are none."""
    value = Value.cast(value)
    for number in range(cycles):
        register = Signal(value.shape(), name=f"{name}_{number + 1}_later")
        m.d.sync += register.eq(value)
        value = register
    return value
