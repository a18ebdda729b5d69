"""Parts that a machine file states: those of an accelerator, with its memory timings, and links between devices.

Memory levels stay in the machine: the cache is its fastest level, and the HBM its slowest, with its rate.

>>> parts = AcceleratorParts(pe_lines=64, macs_per_line=32, exp_modules=128, kv_buffer_bytes=256, hbm=HbmParts())
>>> parts.macs
2048
"""

from dataclasses import dataclass, field, fields
from enum import Enum

from attenio.errors import InvalidInput
from attenio.names import member_named
from attenio.quantities import checked_count


@dataclass(frozen=True, kw_only=True)
class HbmParts:
    """Channels, bursts and timings of a stack of HBM.

    The defaults are those of an 8 Gb HBM2 part with its channels in pseudo-channel mode (JEDEC JESD235; the numbers of
    the HBM2_8Gb_x128 part of DRAMsim3, the memory simulator that the AttenIO paper used).
    """

    channels: int = 16
    burst_bytes: int = 32  # 64 bits a channel, four beats
    page_bytes: int = 1024  # a row of one bank of a pseudo-channel
    row_precharge_ns: int = 14  # tRP
    row_activate_ns: int = 14  # tRCD
    read_latency_ns: int = 14  # CL
    four_activates_ns: int = 30  # tFAW
    refresh_ns: int = 260  # tRFC
    refresh_interval_ns: int = 3900  # tREFI

    def __post_init__(self) -> None:
        for part in fields(self):
            least = 0 if part.name in _MAY_BE_ZERO else 1
            checked_count(part.name, getattr(self, part.name), least=least, most=2**20)
        if self.refresh_ns >= self.refresh_interval_ns:
            raise InvalidInput(
                f"refresh_ns is {self.refresh_ns:,}, no less than refresh_interval_ns {self.refresh_interval_ns:,};"
                " the memory would do nothing but refresh: use a longer interval"
            )
        if self.page_bytes % self.burst_bytes:
            raise InvalidInput(
                f"page_bytes is {self.page_bytes:,}, not a multiple of burst_bytes {self.burst_bytes:,}; make it one"
            )


# Registers of a pipeline, and cycles of an adder: what is modelled, and built.
_MOST_FILL = 64
_ADDERS = (1, 2, 4, 8, 16)
_MAY_BE_ZERO = frozenset(("row_precharge_ns", "row_activate_ns", "read_latency_ns", "four_activates_ns", "refresh_ns"))


@dataclass(frozen=True, kw_only=True)
class SiliconParts:
    """What a MAC and a module are made of, where cycles depend on it; the defaults are those of the published cycles.

    A sum that takes ``adder_cycles`` is taken as so many partial sums in turn, so that a product is added in every
    cycle; pairs of them meet at the end. ``fill_cycles`` are registers between the banks and the adder. Without a
    second multiplier outputs are scaled in cycles of their own. ``macs_a_divider`` MACs take turns at a divider.
    """

    adder_cycles: int = 1
    fill_cycles: int = 0
    exp_fill_cycles: int = 0  # registers within an EXP module beyond the one that the published pipeline has
    multipliers: int = 2
    macs_a_divider: int = 1

    def __post_init__(self) -> None:
        for name in ("fill_cycles", "exp_fill_cycles"):
            if checked_count(name, getattr(self, name), least=0) > _MOST_FILL:
                raise InvalidInput(
                    f"{name} is {getattr(self, name):,}; pipelines are up to {_MOST_FILL} registers deep"
                )
        if checked_count("adder_cycles", self.adder_cycles) not in _ADDERS:
            raise InvalidInput(
                f"adder_cycles is {self.adder_cycles:,}; partial sums meet in pairs: use 1, 2, 4, 8 or 16"
            )
        if checked_count("multipliers", self.multipliers) > 2:
            raise InvalidInput(f"multipliers is {self.multipliers:,}; a MAC has one or two: use 1 or 2")
        checked_count("macs_a_divider", self.macs_a_divider, most=2**24)

    @property
    def latency_cycles(self) -> int:
        """Cycles by which a result comes later than the cycle in which its operands are read."""
        return self.fill_cycles + self.adder_cycles - 1

    @property
    def pairing_cycles(self) -> int:
        """Cycles after the last product of a sum until its partial sums have met.

        >>> [SiliconParts(adder_cycles=cycles).pairing_cycles for cycles in (1, 2, 4)]
        [0, 3, 11]
        """
        return self.adder_cycles - 1 + self.adder_cycles * (self.adder_cycles - 1).bit_length()


@dataclass(frozen=True, kw_only=True)
class AcceleratorParts:
    """What sits between the cache and the controller: lines of MACs, exponential modules, the key buffer."""

    pe_lines: int
    macs_per_line: int
    exp_modules: int
    kv_buffer_bytes: int
    clock_hz: int = 10**9
    hbm: HbmParts = field(default_factory=HbmParts)
    silicon: SiliconParts = field(default_factory=SiliconParts)

    def __post_init__(self) -> None:
        for name in ("pe_lines", "macs_per_line", "exp_modules"):
            checked_count(name, getattr(self, name), most=2**24)
        checked_count("kv_buffer_bytes", self.kv_buffer_bytes, most=2**40)
        checked_count("clock_hz", self.clock_hz, most=10**12)
        if self.silicon.macs_a_divider > self.macs_per_line:
            raise InvalidInput(
                f"silicon has {self.silicon.macs_a_divider:,} MACs at a divider, and a line has"
                f" {self.macs_per_line:,}; use at most as many"
            )

    @property
    def macs(self) -> int:
        """Multiply-accumulate units of the array."""
        return self.pe_lines * self.macs_per_line


class LinkShape(Enum):
    """How the devices of a link level are joined."""

    SWITCH = "switch"  # each device sends to any other at the level's rate
    RING = "ring"  # each device has a link to its neighbour on either side, as along one axis of a torus

    @classmethod
    def named(cls, name: "str | LinkShape") -> "LinkShape":
        """The shape with this name; of an unknown one, what is known and closest."""
        return member_named(cls, name, "shape of a link")


@dataclass(frozen=True, kw_only=True)
class Link:
    """One level of the links between devices: ``devices`` groups of the level before form one of this level.

    ``bandwidth_bytes_per_s`` is what one device sends over one link of this level, in one direction; it receives as
    much at the same time. ``latency_s`` is what a message takes besides its bytes.
    """

    name: str
    devices: int
    bandwidth_bytes_per_s: float
    latency_s: float = 0.0
    shape: LinkShape = LinkShape.SWITCH

    def __post_init__(self) -> None:
        checked_count(f"devices of link {self.name}", self.devices, most=2**17)
        rate, latency = self.bandwidth_bytes_per_s, self.latency_s
        if not (isinstance(rate, int | float) and 0 < rate < float("inf")):
            raise InvalidInput(f"bandwidth of link {self.name} is {rate!r}; give bytes per second above zero")
        if not (isinstance(latency, int | float) and 0 <= latency < 1e3):
            raise InvalidInput(f"latency of link {self.name} is {latency!r}; give seconds, such as 2e-6")
