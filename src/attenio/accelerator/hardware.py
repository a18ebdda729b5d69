"""The accelerator of a machine: its engines, put together."""

from dataclasses import dataclass

from attenio.accelerator.cache import Cache
from attenio.accelerator.exp_unit import ExpUnit
from attenio.accelerator.hbm import Hbm
from attenio.accelerator.kv_buffer import KvBuffer
from attenio.accelerator.pe_array import PeArray
from attenio.catalogue import as_machine
from attenio.errors import InvalidInput
from attenio.machine import Machine

WORD_BYTES = 2


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """The engines that a controller's program runs on."""

    pe: PeArray
    exp: ExpUnit
    kv: KvBuffer
    cache: Cache
    hbm: Hbm
    clock_hz: int

    @classmethod
    def of(cls, machine: Machine | str) -> "Hardware":
        """The accelerator that a machine describes; machines without one are refused."""
        machine = as_machine(machine)
        parts = machine.accelerator
        if parts is None:
            raise InvalidInput(
                f"machine {machine.name} has no accelerator; choose one such as attenio-512k, or add an"
                " 'accelerator:' section to its file"
            )
        cache, memory = machine.levels
        assert cache.capacity_bytes is not None and memory.bandwidth_bytes_per_s is not None
        return cls(
            pe=PeArray(lines=parts.pe_lines, macs_per_line=parts.macs_per_line),
            exp=ExpUnit(modules=parts.exp_modules),
            kv=KvBuffer(words=parts.kv_buffer_bytes // WORD_BYTES),
            cache=Cache(words=cache.capacity_bytes // WORD_BYTES),
            hbm=Hbm.of(
                parts.hbm,
                bytes_per_s=round(memory.bandwidth_bytes_per_s),
                clock_hz=parts.clock_hz,
                element_bytes=WORD_BYTES,
            ),
            clock_hz=parts.clock_hz,
        )
