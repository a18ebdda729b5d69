"""Triton's interpreter without its largest costs, which are no part of what a kernel computes.

Before every call of a device function it looks through all members of ``triton.language`` for those to replace, and for
every number it makes it builds the table of all types anew, and the constants of its shape. Which members, types and
shapes there are does not change: they are looked up once here. Sums and products of integers are computed again in 64
bits for an assertion that is only made when debugging. Numbers become bf16 and fp32 bit by bit, where without subnormal
ones it is a shift. What is replaced, and by what, is left to Triton.
"""

import dataclasses
import inspect
import math
from functools import cache

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

__all__ = ["make_quick"]

_look_through, _type_of = getattr(interpreter, "_patch_builtin", None), getattr(interpreter, "_get_np_dtype", None)
_bit_by_bit, _make_type, _same = getattr(interpreter, "_convert_float", None), tl.block_type.__init__, tl.tuple.__eq__
_types, _of_a_number = {}, (tl.constexpr(1), tl.tuple([]))


def make_quick():
    """Have Triton use what is below, where this release has the same functions."""
    if _look_through is not None and list(inspect.signature(_look_through).parameters) == ["pkg", "builder", "scope"]:
        for package in (tl, tl.core, tl.tensor, tl.math, tl.core.tensor_descriptor_base):
            _builtins(package)  # before any is replaced
        interpreter._patch_builtin = _patch_builtin
    if _type_of is not None:
        interpreter._get_np_dtype = _get_np_dtype
    if _has(tl.tensor(None, tl.int32), "handle", "shape", "numel", "type", "dtype") and _has(
        tl.block_type(tl.int32, [4]), "element_ty", "shape", "numel", "name"
    ):
        tl.tensor.__init__, tl.block_type.__init__, tl.tuple.__eq__ = _new_tensor, _new_type, _equal
    options = getattr(interpreter.interpreter_builder, "options", None)
    if hasattr(options, "sanitize_overflow") and not options.debug:
        interpreter.interpreter_builder.options = dataclasses.replace(options, sanitize_overflow=False)
    if _bit_by_bit is not None and len(inspect.signature(_bit_by_bit).parameters) == 4:
        interpreter._convert_float = _convert_float


def _has(value, *names):
    return vars(value).keys() == set(names)


@cache
def _builtins(package):
    return tuple(name for name, member in inspect.getmembers(package) if tl.core.is_builtin(member))


def _patch_builtin(pkg, builder, scope):
    names = _builtins(pkg)
    if names and tl.core.is_builtin(getattr(pkg, names[0])):  # otherwise they are replaced already, all of them
        for name in names:
            interpreter._patch_attr(pkg, name, getattr(pkg, name), builder, scope)


def _get_np_dtype(tt_dtype):
    element = tt_dtype.element_ty if isinstance(tt_dtype, tl.block_type) else tt_dtype
    return _number_type(tl.pointer_type if isinstance(element, tl.pointer_type) else element)


@cache
def _number_type(element):
    return _type_of(tl.pointer_type(tl.int8) if element is tl.pointer_type else element)


def _new_tensor(self, handle, type):
    self.handle, self.type, self.dtype = handle, type, type.scalar
    self.numel, self.shape = type.constants if type.is_block() else _of_a_number


def _new_type(self, element_ty, shape):
    lengths = shape.values if isinstance(shape, tl.tuple) else shape
    key = (str(element_ty), *[getattr(length, "value", length) for length in lengths])
    if key not in _types or _types[key]["element_ty"] != element_ty:
        _make_type(self, element_ty, shape)
        constants = tl.constexpr(math.prod(self.shape)), tl.tuple([tl.constexpr(each) for each in self.shape])
        made = {name: getattr(self, name) for name in ("element_ty", "shape", "numel", "name")}
        _types[key] = {**made, "constants": constants}
    self.__dict__.update(_types[key])


def _equal(self, other):
    return tl.constexpr(True) if self is other else _same(self, other)


def _convert_float(numbers, input_dtype, output_dtype, rounding_mode):
    kinds = (input_dtype, output_dtype)
    if rounding_mode is None and kinds == (tl.float32, tl.bfloat16):
        bits = np.ascontiguousarray(numbers).view(np.uint32)
        if not _has_subnormal(bits, 0x7F800000, 0x007FFFFF):
            return (bits >> 16).astype(np.uint16).reshape(numbers.shape)
    if rounding_mode is None and kinds == (tl.bfloat16, tl.float32):
        bits = np.ascontiguousarray(numbers).view(np.uint16)
        if not _has_subnormal(bits, 0x7F80, 0x007F):
            return (bits.astype(np.uint32) << 16).reshape(numbers.shape)
    return _bit_by_bit(numbers, input_dtype, output_dtype, rounding_mode)


def _has_subnormal(bits, exponent, significand):
    return bool(np.any((bits & exponent == 0) & (bits & significand != 0)))
