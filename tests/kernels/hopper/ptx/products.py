"""Products of a warp, a quarter of a warpgroup's wgmma: they read and write at any time until they are waited for."""

from collections import deque
from typing import NamedTuple

import numpy as np
from tests.kernels.hopper.ptx.matrices import from_fragments, from_sums, operand_words, to_floats, to_sums
from tests.kernels.hopper.ptx.shared import Fault
from tests.kernels.hopper.ptx.tasks import Task

__all__ = ["Products"]


class _InFlight:
    """What a register of sums is until a wait: no number."""

    __array_ufunc__ = None

    def __repr__(self):
        return "a register that a product has not been waited for"


IN_FLIGHT = _InFlight()


class _Sums:
    def __init__(self, matrix):
        self.matrix, self.group = matrix, 0


class _Product(NamedTuple):
    sums: _Sums
    a: "int | np.ndarray"
    b: int
    adds: bool
    by_columns: tuple[bool, bool]
    n: int
    element: str
    group: int
    clock: np.ndarray


class Products:
    """Of a warp."""

    def begin_products(self):
        self._queue, self._flying, self._operands = deque(), {}, []
        self._fenced = list(self.registers)
        self._groups, self._issued, self._finished, self._ends = 0, 0, 0, {0: 0}
        self._of_products = self.block.base + self.block.warps + self.index
        self._task = Task("product", self._compute)

    def fence_products(self, mask):
        self.together(mask)
        self._fenced = list(self.registers)

    def multiply(self, of_sums, of_a, a, b, adds, signs, n, element, mask):
        """Issue d = a b, or add it."""
        self.together(mask)
        *_, b_by_columns = signs
        a_by_columns = bool(signs[2]) if len(signs) == 4 else False
        if signs[:2] != (1, 1):
            raise NotImplementedError("products that are subtracted")
        sums = self._flying.get(of_sums)
        if sums is None:
            given = [self._ready(each, is_read=adds[0]) for each in of_sums]
            sums = self._flying[of_sums] = _Sums(from_sums(given))
            for each in of_sums:
                self.registers[each] = IN_FLIGHT
        sums.group = self._groups + 1
        if of_a:
            held = [self._ready(each) for each in of_a]
            self._operands.extend((sums.group, each, value) for each, value in zip(of_a, held, strict=True))
            matrix = from_fragments(held, element)
        else:
            matrix = self.one(a, mask)
        b = self.one(b, mask)
        self._agree((n, None if of_a else matrix, b))
        self._queue.append(_Product(
            sums, matrix, b, bool(self.one(adds, mask)), (a_by_columns, bool(b_by_columns)), n, element, sums.group,
            self.clock.copy(),
        ))  # fmt: skip
        self._issued += 1
        if len(self._queue) == 1:
            self.launch.begin(self._task)

    def _ready(self, register, *, is_read=True):
        """What a register holds, which a fence came after; where it is overwritten, what was there may be new."""
        value = self.registers[register]
        if value is IN_FLIGHT:
            raise Fault("a product takes a register that another one has, which was not waited for")
        if is_read and value is not self._fenced[register]:
            raise Fault("a product takes a register that changed after the last wgmma.fence")
        return value

    def _agree(self, product):
        """All warps of a warpgroup issue the same products."""
        issued = self.launch.issued.setdefault((self.block.number, self.index // 4), [])
        if len(issued) == self._issued:
            issued.append(product)
        elif issued[self._issued] != product:
            raise Fault("warps of a warpgroup issue different products")

    def _compute(self):
        product = self._queue.popleft()
        if isinstance(product.a, int):
            a = self._operand(product, product.a, product.by_columns[0], 16 * (self.index % 4), 16)
        else:
            a = product.a
        b = self._operand(product, product.b, product.by_columns[1], 0, product.n)
        sums = a @ b.T
        product.sums.matrix = product.sums.matrix + sums if product.adds else sums
        self._finished += 1
        if self._queue:
            self.launch.begin(self._task)

    def _operand(self, product, descriptor, by_columns, first, count):
        words = operand_words(descriptor, by_columns, first, count)
        flat = words.ravel()
        self.shared.check(4 * int(flat.min()), 4 * int(flat.max()) + 4, 4)
        self.shared.before_read(flat, self._of_products, product.group, product.clock, is_async=True)
        found = to_floats(self.shared.words[words], product.element)
        return found.T if by_columns else found

    def commit_products(self, mask):
        self.together(mask)
        self._groups += 1
        self._ends[self._groups] = self._issued

    def wait_products(self, left, mask):
        self.together(mask)
        group = max(self._groups - self.one(left, mask), 0)
        count = self._ends[group]
        self.wait_for(lambda: self._finished >= count, f"products of group {group}", lambda: self._release(group))

    def _release(self, group):
        """Registers of groups up to this one are there."""
        self.clock[self._of_products] = max(self.clock[self._of_products], group)
        for _, register, value in (each for each in self._operands if each[0] <= group):
            if self.registers[register] is not value:
                raise Fault("a register that a product reads changed before it was waited for")
        self._operands = [each for each in self._operands if each[0] > group]
        for registers in [each for each, sums in self._flying.items() if sums.group <= group]:
            for register, value in zip(registers, to_sums(self._flying.pop(registers).matrix), strict=True):
                if self.registers[register] is not IN_FLIGHT:
                    raise Fault("a register that a product writes changed before it was waited for")
                self.registers[register] = self._fenced[register] = value

    def end_products(self):
        if self._issued != self._finished:
            raise Fault("a warp ends before its products")
