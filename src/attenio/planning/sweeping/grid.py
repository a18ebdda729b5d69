"""A grid of workloads and machines: every combination of a few lists, in a fixed order."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from attenio.catalogue import as_machine
from attenio.elements import ElementType
from attenio.errors import InvalidInput
from attenio.machine import LARGEST_MEMORY_BYTES, Boundary, Machine
from attenio.masks import Mask, mask_from_text
from attenio.names import show_value
from attenio.planning.sweeping.cases import Ints
from attenio.quantities import as_count, as_size, checked_count
from attenio.workload import Direction, Workload

_MOST_POINTS = 10**9


@dataclass(frozen=True, kw_only=True)
class SweepGrid:
    """Lists whose combinations are the points of a sweep; the last list changes fastest.

    ``n`` gives queries and keys the same length, ``queries`` and ``keys`` combine different ones. A ``value_dim`` of
    None is d, a ``kv_heads`` of None is heads. Machines are asked about their slowest boundary; ``fast_bytes`` adds
    machines with nothing but a fast memory of that size. Machines, masks and element types may be given by name. All
    points have the same ``direction``: forward, backward or training, and the same ``values_in_keys`` and ``sinks``.
    ``kv_bits`` of None are those of the element type.

    >>> grid = SweepGrid(n=[1024, 2048], d=[64, 128], masks=["dense", "causal"], fast_bytes=[65536])
    >>> len(grid), grid.workload(5).mask, grid.workload(5).d
    (8, Causal(), 64)
    """

    n: Sequence[int] = ()
    queries: Sequence[int] = ()
    keys: Sequence[int] = ()
    d: Sequence[int] = ()
    value_dim: Sequence[int | None] = (None,)
    heads: Sequence[int] = (1,)
    kv_heads: Sequence[int | None] = (None,)
    batch: Sequence[int] = (1,)
    masks: Sequence[Mask | str] = ("dense",)
    dtypes: Sequence[ElementType | str] = (ElementType.FP16,)
    accumulators: Sequence[ElementType | str | None] = (None,)
    fast_bytes: Sequence[int] = ()
    machines: Sequence[Machine | str] = field(default=())
    direction: Direction | str = Direction.FORWARD
    values_in_keys: bool = False
    kv_bits: Sequence[int | None] = (None,)
    sinks: bool = False

    def __post_init__(self) -> None:
        for each in fields(self):
            values, alike = getattr(self, each.name), each.name in ("direction", "values_in_keys", "sinks")
            if not alike and (isinstance(values, str) or not isinstance(values, Iterable)):
                shown = show_value(values)
                raise InvalidInput(f"{each.name} of a sweep is {shown}; give a list, such as [{shown}]")
            if not alike:
                self._keep(each.name, list(values))
        if bool(self.n) == bool(self.queries or self.keys):
            raise InvalidInput("a sweep needs lengths: give n, or queries and keys, and not both")
        for name in ("n", "queries", "keys"):
            self._keep(name, [checked_count(name, as_count(name, value)) for value in getattr(self, name)])
        for name in ("d", "value_dim"):
            self._keep(name, [self._optional(name, value, 2**16) for value in getattr(self, name)])
        for name in ("heads", "kv_heads", "batch"):
            self._keep(name, [self._optional(name, value, 2**20) for value in getattr(self, name)])
        self._keep("kv_bits", [None if bits is None else checked_count("kv_bits", bits) for bits in self.kv_bits])
        self._keep("masks", [mask_from_text(mask) if isinstance(mask, str) else mask for mask in self.masks])
        self._keep("dtypes", [ElementType.named(dtype) for dtype in self.dtypes])
        self._keep("accumulators", [None if kind is None else ElementType.named(kind) for kind in self.accumulators])
        sizes = [
            checked_count("fast-bytes", as_size("fast-bytes", size), most=LARGEST_MEMORY_BYTES)
            for size in self.fast_bytes
        ]
        self._keep("fast_bytes", sizes)
        self._keep("machines", [as_machine(machine) for machine in self.machines])
        object.__setattr__(self, "direction", Direction.named(self.direction))
        for name, values in self.axes.items():
            if not values:
                raise InvalidInput(f"a sweep has no {name}; give at least one")
            twice = next((value for value, times in Counter(values).items() if times > 1), None)
            if twice is not None:
                what = getattr(twice, "value", getattr(twice, "name", twice))
                raise InvalidInput(f"a sweep has {what} more than once in its {name}; leave one of them out")
        if len(self) > _MOST_POINTS:
            raise InvalidInput(f"a sweep of {len(self):,} points is too large; use up to {_MOST_POINTS:,}")

    def _keep(self, name: str, values: list) -> None:  # type: ignore[type-arg]
        object.__setattr__(self, name, tuple(values))

    def _optional(self, name: str, value: int | None, most: int) -> int | None:
        if value is None and name in ("value_dim", "kv_heads"):
            return None
        return checked_count(name, as_count(name, value), most=most)

    @cached_property
    def lengths(self) -> tuple[tuple[int, int], ...]:
        """Pairs of queries and keys."""
        return tuple((n, n) for n in self.n) or tuple(product(self.queries, self.keys))

    @cached_property
    def computers(self) -> tuple[Machine, ...]:
        """The machines given, then those with a fast memory of the sizes given."""
        return (*map(as_machine, self.machines), *(Machine.with_fast_bytes(size) for size in self.fast_bytes))

    @cached_property
    def axes(self) -> dict[str, tuple]:  # type: ignore[type-arg]
        """The lists, in the order in which they are combined."""
        names = ("d", "value_dim", "heads", "kv_heads", "batch", "masks", "dtypes", "kv_bits", "accumulators")
        return {"lengths": self.lengths, **{name: getattr(self, name) for name in names}, "machines": self.computers}

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many values each list has."""
        return tuple(len(values) for values in self.axes.values())

    def __len__(self) -> int:
        return prod(self.shape)

    @cached_property
    def fingerprint(self) -> str:
        """A digest that differs between grids that differ."""
        asked = repr(self.axes) if self.direction is Direction.FORWARD else repr((self.axes, self.direction))
        asked += (" values in keys" if self.values_in_keys else "") + (" sinks" if self.sinks else "")
        return hashlib.sha256(asked.encode()).hexdigest()

    def positions(self, start: int, stop: int) -> dict[str, Ints]:
        """For the points from ``start`` to ``stop`` the position in each list."""
        left, indices = (
            np.arange(start, stop, dtype=np.int64),
            dict.fromkeys(self.axes, np.zeros(stop - start, np.int64)),
        )
        for name, values in reversed(self.axes.items()):
            if len(values) > 1:  # few lists are longer
                rest = left // len(values)
                indices[name], left = left - rest * len(values), rest
        return indices

    def workload(self, point: int) -> Workload:
        """The workload of a point; InvalidInput where the combination is none."""
        value = {name: self.axes[name][index[0]] for name, index in self.positions(point, point + 1).items()}
        queries, keys = value["lengths"]
        return Workload(
            queries=queries,
            keys=keys,
            d=value["d"],
            value_dim=value["value_dim"],
            heads=value["heads"],
            kv_heads=value["kv_heads"],
            batch=value["batch"],
            mask=value["masks"],
            dtype=value["dtypes"],
            accumulator=value["accumulators"],
            direction=self.direction,
            values_in_keys=self.values_in_keys,
            kv_bits=value["kv_bits"],
            sinks=self.sinks,
        )

    def boundary(self, point: int) -> Boundary:
        """The boundary that a point asks about."""
        return self.computers[int(self.positions(point, point + 1)["machines"][0])].slowest_boundary
