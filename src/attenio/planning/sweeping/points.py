"""Points of a grid as arrays, and the cases they come down to: heads, batches and machines often repeat one."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attenio.elements import ElementType
from attenio.masks import Causal, Dense, SharedPrefix, SlidingWindow
from attenio.planning.sweeping.cases import Cases, Ints
from attenio.planning.sweeping.grid import SweepGrid
from attenio.workload import Direction

BAND_MASKS = (Dense, Causal, SlidingWindow)


@dataclass(frozen=True)
class Points:
    """The points of a grid from ``start`` to ``stop``."""

    grid: SweepGrid
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @cached_property
    def positions(self) -> dict[str, Ints]:
        """The position of every point in each list."""
        return self.grid.positions(self.start, self.stop)

    def _numbers(self, name: str, instead: Ints | None = None) -> Ints:
        """Values of a list of integers; ``instead`` where the list says None."""
        values = self.grid.axes[name]
        numbers = np.array([-1 if value is None else value for value in values], dtype=np.int64)[self.positions[name]]
        return numbers if instead is None else np.where(numbers < 0, instead, numbers)

    @cached_property
    def columns(self) -> dict[str, Ints]:
        """What a point asks about, in numbers."""
        lengths = np.array(self.grid.lengths, dtype=np.int64)[self.positions["lengths"]]
        d, heads = self._numbers("d"), self._numbers("heads")
        return {
            "queries": lengths[:, 0],
            "keys": lengths[:, 1],
            "d": d,
            "value_dim": self._numbers("value_dim", d),
            "heads": heads,
            "kv_heads": self._numbers("kv_heads", heads),
            "batch": self._numbers("batch"),
            "fast_words": self._by_machine(lambda boundary, dtype: boundary.fast_words(dtype)),
        }

    def _by_machine(self, count) -> Ints:  # type: ignore[no-untyped-def]
        """A number that a boundary and an element type decide."""
        boundaries = [machine.slowest_boundary for machine in self.grid.computers]
        table = [[count(boundary, dtype) for dtype in self.grid.dtypes] for boundary in boundaries]
        return np.array(table, dtype=np.int64)[self.positions["machines"], self.positions["dtypes"]]

    @cached_property
    def _units(self) -> tuple[Ints, Ints]:
        """Rows and keys of the granularity of every point's machine and element type."""
        kinds = [ElementType.named(dtype) for dtype in self.grid.dtypes]
        units = [[machine.granularity_of(kind) for kind in kinds] for machine in self.grid.computers]
        if all(unit.is_free for row in units for unit in row):
            free = np.ones(len(self), dtype=np.int64)
            return free, free
        table = np.array([[(unit.rows, unit.keys) for unit in row] for row in units], dtype=np.int64)
        rows, keys = table[self.positions["machines"], self.positions["dtypes"]].T
        return rows, keys

    @property
    def row_unit(self) -> Ints:
        """What tiles of rows are a multiple of."""
        return self._units[0]

    @property
    def key_unit(self) -> Ints:
        """What tiles of keys are a multiple of."""
        return self._units[1]

    @cached_property
    def inside_words(self) -> Ints:
        """Words that all levels inside the boundary hold, which bounds grant an algorithm."""
        return self._by_machine(lambda boundary, dtype: boundary.words_inside(dtype))

    @cached_property
    def units(self) -> Ints:
        """Fast memories that work side by side."""
        return self._by_machine(lambda boundary, dtype: boundary.fast.units)

    @cached_property
    def intermediate_words(self) -> Ints:
        """Words of one intermediate; zero where the accumulator is too narrow."""
        bytes_of = {
            kind: ElementType.named(kind).bytes for kind in (*self.grid.dtypes, *self.grid.accumulators) if kind
        }
        kinds = [
            [bytes_of[wide] // bytes_of[narrow] if wide else 1 for wide in self.grid.accumulators]
            for narrow in self.grid.dtypes
        ]
        return np.array(kinds, dtype=np.int64)[self.positions["dtypes"], self.positions["accumulators"]]

    @cached_property
    def runs(self) -> Ints:
        """How often the case of a point occurs; requests that share a prefix are one case together."""
        stacked = np.array([isinstance(mask, SharedPrefix) for mask in self.grid.masks])[self.positions["masks"]]
        return np.asarray(self.columns["kv_heads"] * np.where(stacked, 1, self.columns["batch"]))

    @cached_property
    def in_arrays(self) -> NDArray[np.bool_]:
        """Sound points with a band as mask, values apart, whole words and no sinks; others are looked at one by one."""
        columns, masks = self.columns, self.positions["masks"]
        bands = np.array([isinstance(mask, BAND_MASKS) for mask in self.grid.masks])[masks]
        widths = np.array(
            [mask.width if isinstance(mask, SlidingWindow) else 0 for mask in self.grid.masks], dtype=np.int64
        )[masks]
        sound = (columns["heads"] % columns["kv_heads"] == 0) & (widths <= columns["keys"])
        sound &= not self.grid.values_in_keys and not self.grid.sinks
        if self.grid.kv_bits != (None,):
            sound &= np.array([bits is None for bits in self.grid.kv_bits])[self.positions["kv_bits"]]
        return np.asarray(bands & sound & (self.intermediate_words >= 1) & (columns["fast_words"] >= 1))

    @cached_property
    def group(self) -> Ints:
        """Query heads that share one KV head, where they do so evenly."""
        return np.asarray(self.columns["heads"] // self.columns["kv_heads"])

    def codes(self, index: Ints, names: tuple[str, ...]) -> Ints:
        """A number for the combination of values that some points have in these lists."""
        code = np.zeros(len(index), dtype=np.int64)
        for name in names:
            code = code * len(self.grid.axes[name]) + self.positions[name][index]
        return code

    def cases(self, index: Ints) -> tuple[Cases, Ints]:
        """The different cases among some points, and for each of these points which one it is."""
        # Fewer combinations than the grid has points, times its element types: they fit 64 bits.
        code = self.codes(index, ("lengths", "d", "value_dim", "masks"))
        units, once = (self.row_unit, self.key_unit), self.runs == 1
        if Direction.named(self.grid.direction) is not Direction.TRAINING:  # a pass is planned as one of several
            once = np.zeros_like(once)
        for values in (self.group, self.intermediate_words, self.columns["fast_words"], *units, once):
            chosen = values[index]
            if (chosen != chosen[0]).any():
                different, place = np.unique(chosen, return_inverse=True)
                code = code * len(different) + place
        if (code[1:] > code[:-1]).all():  # no case repeats
            first = place = np.arange(len(code), dtype=np.int64)
        else:
            _, first, place = np.unique(code, return_index=True, return_inverse=True)
        some = index[first]
        columns = {name: values[some] for name, values in self.columns.items()}
        left, right = self._window(some, columns["queries"] + columns["keys"])
        cases = Cases(
            rows=columns["queries"],
            keys=columns["keys"],
            left=left,
            right=right,
            d=columns["d"],
            value_dim=columns["value_dim"],
            group=self.group[some],
            intermediate_words=self.intermediate_words[some],
            fast_words=columns["fast_words"],
            row_unit=self.row_unit[some],
            key_unit=self.key_unit[some],
            once=once[some],
        )
        return cases, np.asarray(place)

    def _window(self, index: Ints, wide: Ints) -> tuple[Ints, Ints]:
        """How far left and right of its diagonal position a row sees, as the patterns of a workload have it."""
        masks = self.positions["masks"][index]
        widths = np.array(
            [mask.width if isinstance(mask, SlidingWindow) else 0 for mask in self.grid.masks], dtype=np.int64
        )[masks]
        onward = np.array(
            [isinstance(m, Causal) or (isinstance(m, SlidingWindow) and m.causal) for m in self.grid.masks]
        )
        left = np.where(widths > 0, widths - 1, wide)
        return left, np.where(onward[masks], 0, left)
