"""Triton's interpreter without its largest cost, which is no part of what a kernel computes.

Before every call of a device function it looks through all members of ``triton.language`` for those to replace, and for
every number it makes it builds the table of all types anew. Which members and types there are does not change: both are
looked up once here. What is replaced, and by what, is left to Triton.
"""

import inspect
from functools import cache

import triton.language as tl
from triton.runtime import interpreter

__all__ = ["make_quick"]

_look_through, _type_of = getattr(interpreter, "_patch_builtin", None), getattr(interpreter, "_get_np_dtype", None)


def make_quick():
    """Have Triton use what is below, where this release has the same functions."""
    if _look_through is not None and list(inspect.signature(_look_through).parameters) == ["pkg", "builder", "scope"]:
        for package in (tl, tl.core, tl.tensor, tl.math, tl.core.tensor_descriptor_base):
            _builtins(package)  # before any is replaced
        interpreter._patch_builtin = _patch_builtin
    if _type_of is not None:
        interpreter._get_np_dtype = _get_np_dtype


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
