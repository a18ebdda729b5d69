"""Bulk copies that a thread begins: loads that a barrier awaits, stores and additions in groups."""

from typing import NamedTuple

import numpy as np
from tests.kernels.hopper.ptx.matrices import box_words
from tests.kernels.hopper.ptx.shared import Fault
from tests.kernels.hopper.ptx.tasks import Task

__all__ = ["Copies", "TensorMap"]

# As in ``warp.py``.
_PARAMETERS, _PAGE = 1 << 40, 1 << 12


class TensorMap(NamedTuple):
    """What a tensor map says, the outermost dimension first; sizes and strides in elements of 16 bits."""

    element: str
    address: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]

    def read(self, memory, column, row, head, batch):
        """A box, (rows, columns), with zeros for what is not there."""
        reach = 1 + sum((size - 1) * step for size, step in zip(self.sizes, self.strides, strict=True))
        if self.address % 16 or any(2 * step % 16 for step in self.strides[:-1]) or self.box[:2] != (1, 1):
            raise Fault("a tensor map is not aligned")
        whole = memory.bytes_at(self.address, 2 * reach).view("u2")
        whole = np.lib.stride_tricks.as_strided(whole, self.sizes, tuple(2 * step for step in self.strides))
        rows, columns = self.box[-2:]
        found = np.zeros((rows, columns), "u2")
        batches, heads, all_rows, all_columns = self.sizes
        if 0 <= batch < batches and 0 <= head < heads:
            down, across = (
                slice(max(first, 0), max(min(first + count, size), 0))
                for first, count, size in ((row, rows, all_rows), (column, columns, all_columns))
            )
            part = whole[batch, head, down, across]
            if part.size:
                found[down.start - row : down.stop - row, across.start - column : across.stop - column] = part
        return found


class _Write(NamedTuple):
    """An addition or a store that nobody has waited for."""

    first: int
    last: int
    adds: bool
    warp: object
    group: int


class Copies:
    """Of a warp, one thread of which begins them."""

    def begin_copies(self):
        self._bulk_groups, self._reading, self._writing = 0, {}, {}
        self._read_until = 0
        self._of_copies = self.block.base + 2 * self.block.warps + self.index

    def _alone(self, mask):
        if np.count_nonzero(mask) != 1:
            raise Fault("more than one thread begins a copy")

    def load_tensor(self, to, source, places, barrier, ranks, mask):
        if not mask.any():
            return
        self._alone(mask)
        described = self.launch.maps[(self.one(source, mask) - _PARAMETERS) // _PAGE]
        column, row, head, batch = (self.one(each.view("i4"), mask) for each in places)
        rows, columns = described.box[-2:]
        start = self.one(to, mask)
        self.shared.check(start, start + 2 * rows * columns, 128)
        words = box_words(start, rows, 2 * columns).ravel()
        at, blocks = self.one(barrier, mask), [self.block]
        if ranks is not None:  # the same place of several blocks
            ranks = [rank for rank in range(16) if self.one(ranks, mask) >> rank & 1]
            blocks = [self.launch.place(self.block, int(self.launch.address(np.uint32(at), rank)))[0] for rank in ranks]

        def read():
            return described.read(self.launch.memory, column, row, head, batch).view("u4").ravel()

        for block in blocks:
            self._load(words, read, block, at)

    def load_bulk(self, to, source, count, barrier, mask):
        if not mask.any():
            return
        self._alone(mask)
        start, address, count = self.one(to, mask), self.one(source, mask), self.one(count, mask)
        self.shared.check(start, start + count, 16)
        if count % 16 or address % 16:
            raise Fault("a bulk copy is not aligned")
        self._order(address, address + count, adds=False, loads=True)
        self._load(
            np.arange(start // 4, (start + count) // 4),
            lambda: self.launch.memory.bytes_at(address, count).view("u4"),
            self.block,
            self.one(barrier, mask),
        )

    def _load(self, words, read, block, at):
        clock, shared, barrier = self.clock.copy(), block.shared, block.barrier(at)
        if not barrier.is_fenced:
            raise Fault("a copy uses a barrier that the async proxy may not see yet: a fence is missing")
        self.tick()

        def complete():
            shared.before_write(words, barrier.agent, barrier.completed + 1, clock)
            shared.words[words] = read()
            barrier.loaded(clock, 4 * len(words))

        self.launch.begin(Task("load", complete))

    def store_bulk(self, to, source, count, mask):
        self._leave(to, source, count, mask, adds=False)

    def add_bulk(self, to, source, count, mask):
        self._leave(to, source, count, mask, adds=True)

    def _leave(self, to, source, count, mask, *, adds):
        if not mask.any():
            return
        self._alone(mask)
        address, start, count = self.one(to, mask), self.one(source, mask), self.one(count, mask)
        self.shared.check(start, start + count, 16)
        if count % 16 or address % 16:
            raise Fault("a bulk copy is not aligned")
        group, clock, memory = self._bulk_groups + 1, self.clock.copy(), self.launch.memory
        self._order(address, address + count, adds=adds, loads=False)
        self.launch.writes.append(_Write(address, address + count, adds, self, group))
        for each in (self._reading, self._writing):
            each[group] = each.get(group, 0) + 1
        words = np.arange(start // 4, (start + count) // 4)

        def read():
            self.shared.before_read(words, self._of_copies, group, clock, is_async=True)
            numbers = self.shared.words[words].copy()
            self._reading[group] -= 1
            self.launch.begin(Task("store", lambda: write(numbers)))

        def write(numbers):
            into = memory.bytes_at(address, count)
            if adds:
                into.view("f4")[:] += numbers.view("f4")
            else:
                into.view("u4")[:] = numbers
            self._writing[group] -= 1

        self.launch.begin(Task("store", read))

    def _order(self, first, last, *, adds, loads):
        """Only additions to the same numbers need not wait for each other."""
        for each in self.launch.writes:
            if each.first < last and first < each.last and not (adds and each.adds):
                what = "loaded" if loads else "added to" if adds else "stored"
                raise Fault(f"global memory at {first:#x} is {what}, and what was written there was not waited for")

    def commit_bulk(self, mask):
        if mask.any():
            self._bulk_groups += 1

    def wait_bulk_read(self, left, mask):
        if mask.any():
            group = self._bulk_groups - self.one(left, mask)
            self.wait_for(
                lambda: not any(count for of, count in self._reading.items() if of <= group),
                f"reads of group {group} of copies", lambda: self._have_read(group),
            )  # fmt: skip

    def wait_bulk(self, left, mask):
        if mask.any():
            group = self._bulk_groups - self.one(left, mask)
            self.wait_for(
                lambda: not any(count for of, count in self._writing.items() if of <= group),
                f"group {group} of copies", lambda: self._have_written(group),
            )  # fmt: skip

    def _have_read(self, group):
        self._read_until = max(self._read_until, group)
        self.clock[self._of_copies] = self._read_until

    def _have_written(self, group):
        self._have_read(group)
        self.launch.writes = [each for each in self.launch.writes if each.warp is not self or each.group > group]

    def end_copies(self):
        if self._read_until < self._bulk_groups:
            raise Fault("a warp ends, and copies may still read shared memory")
