"""Energy and area: what each event costs, and what each part takes, scaled by its size.

Calibrated once, on the area and power of the published design (table 3 of the AttenIO paper: TSMC 22 nm, 1 GHz). Its
power is read as that of full activity: every MAC, every EXP module and one cache word a MAC in every cycle.

Seven tenths of a part's power are spent whether it works or not (clock, registers, leakage), the rest per event: the
paper names no clock gating, and a chip of that kind without it, the first TPU, was measured to burn 28 W idle and 40 W
busy (Jouppi et al., ISCA'17, table 2, doi 10.1145/3079856.3080246). Arrays and units grow with the number of their MACs
and modules. A memory's area and idle power grow with its size, the energy of an access with the root of it, as word and
bit lines do. HBM2 costs 3.9 pJ a bit (O'Connor et al., MICRO'17, doi 10.1145/3123939.3124545).
"""

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from math import sqrt

from attenio.accelerator.hardware import Hardware
from attenio.accelerator.step import Work

IDLE_SHARE = 28 / 40
HBM_JOULES_PER_BIT = 3.9e-12
# The published design: 2,048 MACs, 128 modules, 128 words of KV buffer, 262,144 words of cache, 1 GHz.
_MACS, _MODULES, _KV_WORDS, _CACHE_WORDS, _CLOCK_HZ = 2048, 128, 128, 262_144, 1e9


class Component(Enum):
    """The parts of table 3, and the memory off chip."""

    PE = "PE array"
    EXP = "EXP unit"
    KV = "KV buffer"
    CACHE = "cache"
    HBM = "HBM"


_AREA_MM2 = {Component.PE: 2.44, Component.EXP: 0.48, Component.KV: 0.01, Component.CACHE: 0.79}
_POWER_WATTS = {Component.PE: 2.58392, Component.EXP: 0.48584, Component.KV: 0.00065, Component.CACHE: 0.16252}


@dataclass(frozen=True, kw_only=True)
class Energy:
    """Joules by component."""

    joules: tuple[tuple[Component, float], ...]

    @property
    def total_joules(self) -> float:
        """All components, the memory included."""
        return sum(joules for _, joules in self.joules)

    @property
    def chip_joules(self) -> float:
        """The components of table 3."""
        return sum(joules for component, joules in self.joules if component is not Component.HBM)


@dataclass(frozen=True, kw_only=True)
class Area:
    """Square millimetres by component."""

    mm2: tuple[tuple[Component, float], ...]

    @property
    def total_mm2(self) -> float:
        """The whole chip."""
        return sum(mm2 for _, mm2 in self.mm2)


def area_of(hardware: Hardware) -> Area:
    """The area of an accelerator, every part in proportion to its size.

    >>> from attenio.catalogue import machine_named
    >>> round(area_of(Hardware.of(machine_named("attenio-512k"))).total_mm2, 2)
    3.72
    """
    return Area(mm2=tuple((part, _AREA_MM2[part] * size) for part, size in _sizes(hardware).items()))


def peak_power_watts(hardware: Hardware) -> dict[Component, float]:
    """Power of every part at full activity.

    >>> from attenio.catalogue import machine_named
    >>> round(sum(peak_power_watts(Hardware.of(machine_named("attenio-512k"))).values()), 5)
    3.23293
    """
    events = _events_a_cycle(hardware)
    idle = _idle_watts(hardware)
    return {part: idle[part] + _joules_an_event(hardware)[part] * events[part] * hardware.clock_hz for part in idle}


def energy_of(hardware: Hardware, work: Work, cycles: Fraction) -> Energy:
    """Energy of some work that took so many cycles."""
    seconds = float(cycles) / hardware.clock_hz
    each, idle = _joules_an_event(hardware), _idle_watts(hardware)
    events = {
        Component.PE: work.macs + work.map_operations,
        Component.EXP: work.exponentials,
        Component.KV: work.kv_words,
        Component.CACHE: work.cache_words,
    }
    chip = [(part, idle[part] * seconds + each[part] * count) for part, count in events.items()]
    bits = 8 * hardware.hbm.element_bytes * work.moved_words
    return Energy(joules=(*chip, (Component.HBM, HBM_JOULES_PER_BIT * bits)))


def _sizes(hardware: Hardware) -> dict[Component, float]:
    """Every part's size over that of the published design."""
    return {
        Component.PE: hardware.pe.macs / _MACS,
        Component.EXP: hardware.exp.modules / _MODULES,
        Component.KV: hardware.kv.words / _KV_WORDS,
        Component.CACHE: hardware.cache.words / _CACHE_WORDS,
    }


def _idle_watts(hardware: Hardware) -> dict[Component, float]:
    speed = hardware.clock_hz / _CLOCK_HZ
    return {part: IDLE_SHARE * _POWER_WATTS[part] * size * speed for part, size in _sizes(hardware).items()}


def _events_a_cycle(hardware: Hardware) -> dict[Component, int]:
    """Events of a cycle at full activity: the memories give every MAC a cache word and the lines one key element."""
    return {
        Component.PE: hardware.pe.macs,
        Component.EXP: hardware.exp.modules,
        Component.KV: 1,
        Component.CACHE: hardware.pe.macs,
    }


def _joules_an_event(hardware: Hardware) -> dict[Component, float]:
    published = {Component.PE: _MACS, Component.EXP: _MODULES, Component.KV: 1, Component.CACHE: _MACS}
    each = {part: (1 - IDLE_SHARE) * _POWER_WATTS[part] / (count * _CLOCK_HZ) for part, count in published.items()}
    sizes = _sizes(hardware)
    for part in (Component.KV, Component.CACHE):
        each[part] *= sqrt(sizes[part])
    return each
