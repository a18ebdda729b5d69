"""Where it runs: memory levels from fast to slow, and arithmetic rates."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.granularity import FREE_TILES, Granularity
from attenio.names import checked_kind, show_value
from attenio.parts import AcceleratorParts, Link
from attenio.quantities import as_size, checked_count, show_bytes, show_figures, words_in

LARGEST_MEMORY_BYTES = 2**60


@dataclass(frozen=True, kw_only=True)
class MemoryLevel:
    """One level of memory.

    ``capacity_bytes`` is what one unit sees, a number or text such as "512KB"; the slowest level has none (it holds
    everything).
    ``bandwidth_bytes_per_s`` is the rate between this level and the next faster one, all units together.
    """

    name: str
    capacity_bytes: int | None = None
    bandwidth_bytes_per_s: float | None = None
    units: int = 1

    def __post_init__(self) -> None:
        if self.capacity_bytes is not None:
            what = f"capacity of {self.name} (bytes)"
            size = checked_count(what, as_size(what, self.capacity_bytes), most=LARGEST_MEMORY_BYTES)
            object.__setattr__(self, "capacity_bytes", size)
        checked_count(f"units of {self.name}", self.units, most=2**20)
        rate = self.bandwidth_bytes_per_s
        if rate is not None and not (isinstance(rate, int | float) and 0 < rate < float("inf")):
            raise InvalidInput(f"bandwidth of {self.name} is {show_value(rate)}; give bytes per second above zero")


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """Two adjacent levels, between which words move.

    ``inside_bytes`` is all the memory on the fast side of one unit: the level itself and every faster one within it.
    Where units do not share the faster ones equally it is that of the unit with most. A plan uses the level; a lower
    bound must grant an algorithm all of it.
    """

    fast: MemoryLevel
    slow: MemoryLevel
    inside_bytes: int

    @property
    def name(self) -> str:
        """The two levels, fast first."""
        return f"{self.fast.name}-{self.slow.name}"

    def fast_words(self, dtype: ElementType) -> int:
        """Words that one unit of the fast side holds."""
        assert self.fast.capacity_bytes is not None
        return words_in(self.fast.capacity_bytes, element_bytes=dtype.bytes)

    def words_inside(self, dtype: ElementType) -> int:
        """Words that the fast side holds in all its levels, for each of its units."""
        return words_in(self.inside_bytes, element_bytes=dtype.bytes)


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Memory levels, fastest first, and the rates of arithmetic.

    ``granularity`` says of which multiples tiles are, for element types whose products matrix units compute.
    ``compute_capability`` is that of an NVIDIA GPU, such as (9, 0), by which kernels are chosen. ``links`` join several
    such machines, the closest ones first.

    >>> toy = Machine.with_fast_bytes(512 * 1024)
    >>> toy.slowest_boundary.fast_words(ElementType.FP16)
    262144
    """

    name: str
    levels: tuple[MemoryLevel, ...]
    flops_per_s: Mapping[ElementType, float] = field(default_factory=dict, hash=False)
    exponentials_per_s: float | None = None
    description: str = ""
    source: str = ""
    accelerator: AcceleratorParts | None = None
    granularity: Mapping[ElementType, Granularity] = field(default_factory=dict, hash=False)
    compute_capability: tuple[int, int] | None = None
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        for part, kind in (("levels", Iterable), ("flops_per_s", Mapping)):
            given = getattr(self, part)
            if not isinstance(given, kind) or isinstance(given, str):
                raise InvalidInput(f"{part} of machine {self.name} is {show_value(given)}; see Machine for what it is")
        object.__setattr__(self, "levels", tuple(self.levels))
        for level in self.levels:
            checked_kind(level, MemoryLevel, f"a level of machine {self.name}", "a MemoryLevel, the fastest first")
        object.__setattr__(self, "flops_per_s", MappingProxyType(dict(self.flops_per_s)))
        object.__setattr__(self, "granularity", MappingProxyType(dict(self.granularity)))
        if len(self.levels) < 2:
            raise InvalidInput(
                f"machine {self.name} has {len(self.levels)} memory level; give at least two, fastest first"
            )
        for level in self.levels[:-1]:
            if level.capacity_bytes is None:
                raise InvalidInput(
                    f"level {level.name} of machine {self.name} has no capacity; only the slowest may lack one"
                )
        self._check_order()
        for name, rate in [*self.flops_per_s.items(), ("exponentials", self.exponentials_per_s)]:
            if rate is not None and not (isinstance(rate, int | float) and 0 < rate < float("inf")):
                shown = show_value(rate)
                raise InvalidInput(f"rate of {name} on machine {self.name} is {shown}; give a number above zero")
        if self.accelerator is not None:
            _check_agreement(self, self.accelerator)

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        """Read-only mappings cannot be pickled: they are sent as they were given."""
        given: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("flops_per_s", "granularity"):
            given[name] = dict(given[name])
        return partial(Machine, **given), ()

    def _check_order(self) -> None:
        for fast, slow in pairwise(self.levels):
            if slow.capacity_bytes is not None and fast.capacity_bytes >= slow.capacity_bytes:  # type: ignore[operator]
                raise InvalidInput(
                    f"level {slow.name} of machine {self.name} holds {show_bytes(slow.capacity_bytes)}, no more than"
                    f" {fast.name} before it; list levels fastest and smallest first"
                )

    @classmethod
    def with_fast_bytes(cls, fast_bytes: int | str, *, name: str = "two-level") -> "Machine":
        """A two-level machine with nothing but a fast memory of this size: 524288, or "512K"."""
        size = checked_count("fast-bytes", as_size("fast-bytes", fast_bytes), most=LARGEST_MEMORY_BYTES)
        fast = MemoryLevel(name="fast", capacity_bytes=size)
        return cls(name=name, levels=(fast, MemoryLevel(name="slow")), description="a fast and a slow memory")

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """Pairs of adjacent levels, the fastest first; faster units are spread evenly, up to one, over slower ones."""
        boundaries: list[Boundary] = []
        for fast, slow in pairwise(self.levels):
            assert fast.capacity_bytes is not None
            inside = fast.capacity_bytes
            if boundaries:
                within = -(-boundaries[-1].fast.units // fast.units)
                inside += within * boundaries[-1].inside_bytes
            boundaries.append(Boundary(fast=fast, slow=slow, inside_bytes=inside))
        return tuple(boundaries)

    def granularity_of(self, dtype: ElementType) -> Granularity:
        """Of which multiples tiles of elements of this type are; free ones where the machine does not say."""
        return self.granularity.get(dtype, FREE_TILES)

    def with_free_tiles(self) -> "Machine":
        """The same machine with tiles of any size."""
        return replace(self, granularity={}) if self.granularity else self

    @property
    def slowest_boundary(self) -> Boundary:
        """The boundary to the slowest memory: the one meant when only one is asked about."""
        return self.boundaries[-1]


def _check_agreement(machine: Machine, parts: AcceleratorParts) -> None:
    """Refuse parts that contradict what is said about the machine as a whole."""
    peak = 2.0 * parts.macs * parts.clock_hz
    flops = machine.flops_per_s.get(ElementType.FP16)
    if flops is not None and abs(flops - peak) > 1e-6 * peak:
        raise InvalidInput(
            f"accelerator has {parts.pe_lines:,} lines of {parts.macs_per_line:,} MACs at {parts.clock_hz:,} Hz,"
            f" {show_figures(peak)} FLOP/s, but flops_per_s says fp16 {show_figures(flops)};"
            " make them agree or leave flops_per_s out"
        )
    exponentials = float(parts.exp_modules) * parts.clock_hz
    if machine.exponentials_per_s is not None and abs(machine.exponentials_per_s - exponentials) > 1e-6 * exponentials:
        raise InvalidInput(
            f"accelerator has {parts.exp_modules:,} EXP modules at {parts.clock_hz:,} Hz,"
            f" {show_figures(exponentials)}/s, but exponentials_per_s says {show_figures(machine.exponentials_per_s)};"
            " make them agree or leave one out"
        )
    if len(machine.levels) != 2:
        raise InvalidInput(
            f"an accelerator has a cache and an HBM, but machine {machine.name} lists {len(machine.levels)} levels;"
            " list these two"
        )
    for level in machine.levels:
        if level.units != 1:
            raise InvalidInput(
                f"level {level.name} of accelerator {machine.name} has {level.units:,} units, and an accelerator is one"
                " unit; leave units out"
            )
    rate = machine.levels[1].bandwidth_bytes_per_s
    if rate is None:
        raise InvalidInput(
            f"level {machine.levels[1].name} of accelerator {machine.name} has no bandwidth_bytes_per_s; add it"
        )
    if rate < 1:
        raise InvalidInput(
            f"level {machine.levels[1].name} of accelerator {machine.name} moves {rate:g} bytes a second; give at least"
            " 1"
        )
    cache_bytes = machine.levels[0].capacity_bytes
    if cache_bytes is not None and parts.kv_buffer_bytes > cache_bytes:
        raise InvalidInput(
            f"kv_buffer_bytes is {parts.kv_buffer_bytes:,}, more than the cache's {cache_bytes:,}; it holds one key:"
            " use a smaller one, or a larger cache"
        )
