"""The ports of a whole machine: both have the same, so that one bench runs either."""

from typing import Any

from amaranth.lib.wiring import In, Out

from attenio.accelerator.rtl.controller import Controller
from attenio.accelerator.rtl.design import Design


def machine_ports(design: Design) -> dict[str, Any]:
    """Words in and out, line by line for queries and outputs, and what the controller does."""
    pe, traced = design.hardware.pe, Controller(design.nest).signature.members.items()
    return {
        **{f"queries_{line}": In(16 * pe.macs_per_line) for line in range(pe.lines)},
        "take_queries": Out(1),
        "kv": In(16 * design.arriving),
        "take_kv": Out(1),
        **{f"outputs_{line}": Out(16 * pe.macs_per_line) for line in range(pe.lines)},
        "give_outputs": Out(1),
        **{name: Out(member.shape) for name, member in traced},
        "late": Out(1),
    }
