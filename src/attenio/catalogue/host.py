"""``--machine host``: this computer, caches as the operating system states them and rates as NumPy reaches them.

Rates are measured once, in about two seconds, and kept in a file until the caches or the processors change. They are
what one program gets at that moment, not what a datasheet promises: other work on the computer makes them lower.
"""

import datetime
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from attenio.catalogue.caches import host_machine
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.files import cache_folder, write_atomically
from attenio.machine import Machine, MemoryLevel
from attenio.quantities import show_bytes

HOST = "host"
_SECONDS, _TIMES = 0.05, 3  # each measurement is the best of a few: other work makes rates lower, never higher
_LARGEST_ARRAY_BYTES = 2**27
_EXPONENTS = 2**18


@dataclass(frozen=True, kw_only=True)
class HostRates:
    """What was measured, when, and on which caches: bytes a second from each level, and arithmetic in fp32."""

    bytes_per_s: tuple[float, ...]
    flops_per_s: float
    exponentials_per_s: float
    date: str
    signature: str
    load: float = 0.0  # what else ran then: processes that were ready on average over a minute


def kept_file() -> Path:
    """Where rates are kept: in the user's cache folder."""
    return cache_folder() / "host.json"


@cache
def host() -> Machine:
    """This computer as a machine; measured where nothing is kept yet."""
    caches, file = host_machine(), kept_file()
    signature = _signature(caches)
    rates = _kept(file, signature)
    if rates is None:
        rates = _measured(caches, signature)
        where = f"kept in {file}" if _keep(file, rates) else f"not kept, since {file} cannot be written"
    else:
        where = f"kept in {file}"
    return _machine(caches, rates, where)


def _machine(caches: Machine, rates: HostRates, where: str) -> Machine:
    levels = [caches.levels[0]]
    for level, rate in zip(caches.levels[1:], rates.bytes_per_s, strict=True):
        levels.append(replace(level, bandwidth_bytes_per_s=rate))
    processors = os.cpu_count() or 1
    busy = f", while other work ran (load {rates.load:.1f} on {processors} processors), so that they may be too low"
    measured = f"rates measured with NumPy on {rates.date}{busy if rates.load > processors / 2 else ''}"
    return Machine(
        name=HOST,
        levels=tuple(levels),
        flops_per_s={ElementType.FP32: rates.flops_per_s},
        exponentials_per_s=rates.exponentials_per_s,
        description=f"This computer: {_signature(caches)}. Rates of fp32 only; of other types none is measured.",
        source=f"Caches {caches.source}; {measured}, {where}; delete it to renew them.",
    )


def _signature(caches: Machine) -> str:
    """What the rates are of: if it changes, they are measured again."""
    shown = (f"{level.units} x {level.name} {show_bytes(level.capacity_bytes or 0)}" for level in caches.levels[:-1])
    return f"{os.cpu_count() or 1} processors, {', '.join(shown)}"


def _kept(file: Path, signature: str) -> HostRates | None:
    """Rates from a file; None where it is not there, not ours, or about another computer."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        rates = HostRates(**{**found, "bytes_per_s": tuple(found["bytes_per_s"])})
        _machine(host_machine(), rates, "")  # refuses rates that are none
    except (OSError, ValueError, TypeError, KeyError, AttributeError, InvalidInput):
        return None
    return rates if rates.signature == signature else None


def _keep(file: Path, rates: HostRates) -> bool:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps(vars(rates), indent=2) + "\n")
    except (OSError, InvalidInput):
        return False
    return True


def _measured(caches: Machine, signature: str) -> HostRates:
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    rates: list[float] = []
    for fast, slow in zip(caches.levels[:-1], caches.levels[1:], strict=True):
        rate = _reading_bytes_per_s(fast, slow)
        rates.append(min([rate, *rates]))  # what a small array loses to calls is no reason for a slower level to lead
    n = 768
    matrix = np.ones((n, n), dtype=np.float32)
    product = np.empty_like(matrix)
    return HostRates(
        bytes_per_s=tuple(rates),
        flops_per_s=2.0 * n**3 * _calls_per_s(lambda: np.matmul(matrix, matrix, out=product)),
        exponentials_per_s=_EXPONENTS * _on_all_processors(lambda _: _exponentials()),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        signature=signature,
        load=load,
    )


def _reading_bytes_per_s(fast: MemoryLevel, slow: MemoryLevel) -> float:
    """Reading what fits the slower level and not the faster one: by every processor its own share."""
    processors = os.cpu_count() or 1
    inside = (fast.capacity_bytes or 0) * fast.units
    room = _LARGEST_ARRAY_BYTES if slow.capacity_bytes is None else slow.capacity_bytes * slow.units // 2
    size = max(4096, min(max(room, 2 * inside), _LARGEST_ARRAY_BYTES) // processors // 4)
    array = np.ones((processors, size), dtype=np.float32)
    if 4 * size >= 2**20:
        return 4.0 * size * _on_all_processors(lambda row: array[row].sum)
    # short calls of several threads would wait for the interpreter: one processor stands for all
    return 4.0 * size * processors * _calls_per_s(lambda: np.dot(array[0], array[0]))


def _exponentials() -> Callable[[], object]:
    values = np.linspace(-8, 0, _EXPONENTS, dtype=np.float32)
    found = np.empty_like(values)
    return lambda: np.exp(values, out=found)


def _on_all_processors(call_of: Callable[[int], Callable[[], object]]) -> float:
    """Calls a second of all processors together, each with a call of its own."""
    processors = os.cpu_count() or 1
    with ThreadPoolExecutor(processors) as pool:
        return sum(pool.map(lambda number: _calls_per_s(call_of(number)), range(processors)))


def _calls_per_s(call: Callable[[], object]) -> float:
    call()
    return max(_rate(call) for _ in range(_TIMES))


def _rate(call: Callable[[], object]) -> float:
    begin, calls = time.perf_counter(), 0
    while True:
        call()
        calls += 1
        passed = time.perf_counter() - begin
        if passed >= _SECONDS:
            return calls / passed
