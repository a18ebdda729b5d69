"""The accelerator of a machine: its engines, put together."""

from dataclasses import dataclass

from attenio.accelerator.hbm import Hbm
from attenio.accelerator.pe_array import PeArray, ceil_div
from attenio.catalogue import as_machine
from attenio.errors import DoesNotFit, InvalidInput
from attenio.machine import Machine
from attenio.quantities import show_words


@dataclass(frozen=True, kw_only=True)
class Cache:
    """The on-chip cache: a scratchpad that the program fills and empties; the planner knows its size.

    The array reads its stationary operand from it, a word for every MAC and cycle, and keeps outputs and statistics in
    it. It has no time of its own: it is built as wide as the array.
    """

    words: int

    def check_row(self, d: int, value_dim: int) -> None:
        """Refuse a head of which not even one row of queries and outputs fits."""
        least = d + value_dim + 4
        if self.words < least:
            raise DoesNotFit(
                f"the cache holds {show_words(self.words)}, and one row of queries, outputs and statistics"
                f" takes {least:,};"
                " use a larger cache or a narrower head"
            )


@dataclass(frozen=True, kw_only=True)
class KvBuffer:
    """Room for one tile of keys, and in its place their values, between the memory and the lines of the array.

    It is read in order, one element a step, so the tile that comes next can take the room of elements that were
    broadcast: values arrive while the scores of their keys are computed, the next keys while outputs are updated.
    """

    words: int

    def check_tile(self, keys: int, width: int) -> None:
        """Refuse a tile that does not fit."""
        if keys * width > self.words:
            rest = "a narrower head or a smaller key_tile" if keys > 1 else "or a narrower head"
            raise DoesNotFit(
                f"the KV buffer holds {show_words(self.words)}, and {keys:,} x {show_words(width)} of keys do not fit;"
                f" use a larger kv_buffer_bytes, {rest}"
            )


@dataclass(frozen=True, kw_only=True)
class ExpUnit:
    """Modules that each take one exponential a cycle.

    In the parallel pattern the array and the unit form a pipeline: while the modules take the exponentials of one group
    of rows, the array prepares the next group and finishes the one before. Three stages give the new maximum and P
    (maximum, subtract, exponential), four the rescaled row sum (subtract, exponential, multiply, add). The first
    exponential waits two cycles for the array, and the array takes two more after the last. In each of these cycles the
    array does one operation on every row of a group: as many rows as there are modules to feed, and MACs to feed them.

    >>> ExpUnit(modules=128).cycles(1985)
    16
    """

    modules: int

    # maximum and subtract before the first exponential; multiply and add after the last
    filling_cycles = 2
    draining_cycles = 2

    def cycles(self, exponentials: int) -> int:
        """Cycles in which so many exponentials are taken."""
        return ceil_div(exponentials, self.modules)


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
            pe=PeArray(lines=parts.pe_lines, macs_per_line=parts.macs_per_line, silicon=parts.silicon),
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
