"""Machines small enough to be built in tests and studies: every burst is some words, and every time is whole cycles."""

from dataclasses import replace

from attenio.machine import Machine, MemoryLevel
from attenio.parts import AcceleratorParts, HbmParts, SiliconParts


def small_machine(
    *, lines: int = 2, macs: int = 2, modules: int = 2, cache_words: int = 48, rate: int = 1, miss_cycles: int = 2
) -> Machine:
    """A machine whose memory gives ``rate`` words a cycle, the first of them ``miss_cycles`` later where it jumps.

    >>> small_machine(lines=4).accelerator.pe_lines
    4
    """
    hbm = HbmParts(
        channels=1,
        burst_bytes=2 * rate,
        page_bytes=64,
        row_precharge_ns=0,
        row_activate_ns=1,
        read_latency_ns=miss_cycles - 1,
        four_activates_ns=0,
        refresh_ns=0,
    )
    words = min(32, cache_words)
    parts = AcceleratorParts(
        pe_lines=lines, macs_per_line=macs, exp_modules=modules, kv_buffer_bytes=2 * words, hbm=hbm
    )
    levels = (
        MemoryLevel(name="cache", capacity_bytes=2 * cache_words),
        MemoryLevel(name="HBM", bandwidth_bytes_per_s=2 * rate * 10**9),
    )
    return Machine(name="small", levels=levels, accelerator=parts)


def made_of(machine: Machine, silicon: SiliconParts) -> Machine:
    """The same accelerator of other silicon.

    >>> made_of(small_machine(), SiliconParts(multipliers=1)).accelerator.silicon.multipliers
    1
    """
    assert machine.accelerator is not None
    return replace(machine, accelerator=replace(machine.accelerator, silicon=silicon))
