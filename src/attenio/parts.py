"""The parts of an accelerator, as a machine file states them: array, exponential unit, key buffer, memory timings.

Memory levels stay in the machine: the cache is its fastest level, and the HBM its slowest, with its rate.

>>> parts = AcceleratorParts(pe_lines=64, macs_per_line=32, exp_modules=128, kv_buffer_bytes=256, hbm=HbmParts())
>>> parts.macs
2048
"""

from dataclasses import dataclass, field, fields

from attenio.errors import InvalidInput
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


_MAY_BE_ZERO = frozenset(("row_precharge_ns", "row_activate_ns", "read_latency_ns", "four_activates_ns", "refresh_ns"))


@dataclass(frozen=True, kw_only=True)
class AcceleratorParts:
    """What sits between the cache and the controller: lines of MACs, exponential modules, the key buffer."""

    pe_lines: int
    macs_per_line: int
    exp_modules: int
    kv_buffer_bytes: int
    clock_hz: int = 10**9
    hbm: HbmParts = field(default_factory=HbmParts)

    def __post_init__(self) -> None:
        for name in ("pe_lines", "macs_per_line", "exp_modules"):
            checked_count(name, getattr(self, name), most=2**24)
        checked_count("kv_buffer_bytes", self.kv_buffer_bytes, most=2**40)
        checked_count("clock_hz", self.clock_hz, most=10**12)

    @property
    def macs(self) -> int:
        """Multiply-accumulate units of the array."""
        return self.pe_lines * self.macs_per_line
