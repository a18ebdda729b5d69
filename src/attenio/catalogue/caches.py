"""The machine that this process runs on: its cache sizes as the operating system states them.

Linux has them under ``/sys/devices/system/cpu``, macOS in ``sysctl``. Where neither answers, or the answer makes no
sense, the caches are taken to be ``FALLBACK_BYTES``: what nearly every processor since 2015 has at least, so that tiles
are too small rather than too large.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from attenio.errors import InvalidInput
from attenio.machine import Machine, MemoryLevel
from attenio.quantities import parse_bytes

FALLBACK_BYTES = {"L1": 32 * 2**10, "L2": 256 * 2**10, "L3": 4 * 2**20}

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_SYSCTL = {"L1": "hw.l1dcachesize", "L2": "hw.l2cachesize", "L3": "hw.l3cachesize"}


@cache
def host_machine() -> Machine:
    """This computer's caches as memory levels; ``units`` counts those of each kind.

    >>> [level.name for level in host_machine().levels][-1]
    'DRAM'
    """
    cpus = os.cpu_count() or 1
    caches = _linux_caches(_CACHES, cpus) or (_macos_caches(cpus) if sys.platform == "darwin" else ())
    source = "as the operating system states them"
    if not caches:
        caches = tuple(
            MemoryLevel(name=name, capacity_bytes=size, units=1 if name == "L3" else cpus)
            for name, size in FALLBACK_BYTES.items()
        )
        source = "assumed: the operating system does not state them"
    try:
        return Machine(name="this machine", levels=(*caches, MemoryLevel(name="DRAM")), source=source)
    except InvalidInput:  # a virtual machine may report a second level no larger than the first
        largest = max(caches, key=lambda level: level.capacity_bytes or 0)
        return Machine(name="this machine", levels=(largest, MemoryLevel(name="DRAM")), source=source)


def _linux_caches(folder: Path, cpus: int) -> tuple[MemoryLevel, ...]:
    levels = []
    try:
        for index in sorted(folder.glob("index*")):
            if (index / "type").read_text().strip() == "Instruction":
                continue
            name, size = f"L{(index / 'level').read_text().strip()}", parse_bytes((index / "size").read_text())
            sharing = _count((index / "shared_cpu_list").read_text())
            levels.append(MemoryLevel(name=name, capacity_bytes=size, units=max(1, cpus // sharing)))
    except (OSError, InvalidInput, ValueError):
        return ()
    return tuple(sorted(levels, key=lambda level: level.capacity_bytes or 0))


def _count(cpu_list: str) -> int:
    """How many processors a list such as ``0-3,8`` names."""
    spans = [[int(end) for end in span.split("-")] for span in cpu_list.strip().split(",")]
    return sum(span[-1] - span[0] + 1 for span in spans)


def _macos_caches(cpus: int) -> tuple[MemoryLevel, ...]:
    levels = []
    for name, key in _SYSCTL.items():
        try:
            text = subprocess.run(["sysctl", "-n", key], capture_output=True, text=True, timeout=5, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            continue
        if text.strip().isdigit() and int(text) > 0:
            levels.append(MemoryLevel(name=name, capacity_bytes=int(text), units=cpus if name == "L1" else 1))
    return tuple(levels)
