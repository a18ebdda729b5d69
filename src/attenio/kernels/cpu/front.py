"""A compiled function in front of ``attention()``, which knows the forms of calls that go to PyTorch's own attention.

Python's way there takes 2 to 11 microseconds, and even a function that only hands on what it is given takes 1.5: more
than 3 % of a call below 50. So where llvmlite is installed, what is imported as ``attention`` is a function in C. Forms
that it does not know go to the function in Python, which decides as it always did and has them remembered here: nothing
is decided twice. Where anything is not as expected, the function in Python is what there is.
"""

import ctypes
import os
import sys
import sysconfig
from collections.abc import Callable
from ctypes import pythonapi
from functools import partial
from inspect import signature
from pathlib import Path
from threading import Lock
from types import BuiltinFunctionType, ModuleType
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attenio.kernels.call.tensor_layout import tensor_layout
from attenio.kernels.cpu.compiling import compiled, has_compiler
from attenio.kernels.cpu.front_text import (
    ENTRY,
    ENTRY_BITS,
    FORM,
    LOOKS,
    MASK_BITS,
    USED,
    front_text,
)
from attenio.kernels.cpu.library import is_any_type_fast
from attenio.kernels.cpu.object_body import FUNCTIONS, NAMES, TABLE

# What PyTorch raises for a call that it refuses; the checks of the whole call then say what is wrong, or compute it.
REFUSALS = (AttributeError, IndexError, RuntimeError, TypeError, ValueError)
_PROMISED_GRAD_MODE = "aoti_torch_grad_mode_is_enabled"
# So many calls of known forms are worth compiling for, which takes a third of a second.
_WORTH = 64
_MOST = 2 ** (ENTRY_BITS - 1)
# Of a class, in bytes from its start.
_CALL_SLOT = 128
_ARGUMENTS_AND_NAMES = 1 | 2  # METH_VARARGS | METH_KEYWORDS


class _Method(ctypes.Structure):
    """How Python is told of a function in C."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("text", ctypes.c_char_p),
    )  # fmt: skip


class Front:
    """A function in C in front of one in Python, and the forms that it knows.

    Until enough forms were to be remembered it calls the one in Python, whatever it is given.
    """

    def __init__(self, python: Callable[..., Any]) -> None:
        self.python = python
        self.why_not: str | None = None
        self._engine: Any = None
        self._adding, self._calls = Lock(), 0
        self._held: list[Any] = []
        self._looked_at: dict[int, Any] = {}
        words = ENTRY * 2**ENTRY_BITS, 2 * 2**MASK_BITS, len(TABLE)
        # Lines of the cache begin at multiples of 64.
        self._memory = ctypes.create_string_buffer(64 + 8 * sum(words))
        first = -(-ctypes.addressof(self._memory) // 64) * 64
        self._entries, self._masks, self._table = (
            (ctypes.c_int64 * number).from_address(first + 8 * sum(words[:i])) for i, number in enumerate(words)
        )
        # What a function in C has for itself is a module. This one can be called, and to call it is all that the
        # function does: its own address, which its hash is made of, stays what it is when another one is called.
        self._module = type("_CalledModule", (ModuleType,), {"__call__": staticmethod(python)})(python.__module__)
        text = f"{python.__name__}{_spelled(python)}\n--\n\n{python.__doc__}"
        call = _address(pythonapi["PyObject_Call"])
        self._method = _Method(python.__name__.encode(), call, _ARGUMENTS_AND_NAMES, text.encode())
        make = pythonapi["PyCFunction_NewEx"]
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
        self.function: Any = make(ctypes.addressof(self._method), self._module, python.__module__)
        # Whoever has the function may call it until the process ends.
        pythonapi.Py_IncRef(ctypes.py_object(self))

    def is_compiled(self) -> bool:
        """Whether it is compiled, now at the latest; ``why_not`` says what is in the way."""
        with self._adding:
            if self._engine is None and self.why_not is None:
                self._compile()
        return self._engine is not None

    def _compile(self) -> None:
        try:
            layout = tensor_layout()
            if layout is None:
                raise LookupError("this PyTorch keeps its tensors in another way")
            self._fill_table()
            places = map(ctypes.addressof, (self._table, self._entries, self._masks))
            text = front_text(layout, *places, items=tuple.__basicsize__, asks_autocast=not is_any_type_fast())
            engine = compiled(text, vectors=False)
            types = ctypes.c_int64, ctypes.py_object, ctypes.py_object, ctypes.c_void_p
            self._place = ctypes.PYFUNCTYPE(*types)(engine.get_function_address("place"))
            _call_slot(type(self._module)).value = engine.get_function_address("attention")
            self._engine = engine
        except (*REFUSALS, ImportError, LookupError, OSError) as error:
            self.why_not = str(error).partition("\n")[0] or type(error).__name__

    def _fill_table(self) -> None:
        """Addresses of all that the compiled function refers to; what could go is held."""
        objects = (
            Tensor, torch.nn.Parameter, None, False, True, float, int, scaled_dot_product_attention, REFUSALS,
            sys.intern("_version"), torch._C._is_any_autocast_enabled, self.python,
        )  # fmt: skip
        self._referred = (*objects, *map(sys.intern, NAMES))
        # An argument that is not given: None, which is no tensor, False, or no object.
        none, false = id(None), id(False)
        defaults = dict.fromkeys(NAMES, none) | {"is_causal": false, "enable_gqa": false, "dropout_p": 0, "window": 0}
        functions = map(_address, (*(pythonapi[name] for name in FUNCTIONS), _grad_mode()))
        asked = []
        for name in ("PyCFunction_GetFunction", "PyCFunction_GetSelf"):
            ask = pythonapi[name]
            ask.restype, ask.argtypes = ctypes.c_void_p, [ctypes.py_object]
            asked.append(ask(scaled_dot_product_attention))
        known = [*map(id, self._referred), *(defaults[name] for name in NAMES), *functions, *asked]
        self._table[:] = known

    def remember(
        self, given: tuple[Any, ...], more: dict[str, Any], way: partial[Tensor] | None, *, looks: bool = False
    ) -> None:
        """Calls of this form are PyTorch's, with their own options or with those of ``way``.

        ``looks``: beside masks only that were seen to be tame. What is no form of the compiled function is left.
        """
        if self.why_not is not None or not self._adding.acquire(blocking=False):
            return  # somebody else compiles
        try:
            self._calls += 1
            if self._calls == _WORTH and self._engine is None:
                self._compile()
            if self._engine is not None:
                if looks:
                    self._remember_tame(given[3])
                self._remember(given, more, way, looks)
        finally:
            self._adding.release()

    def _remember(self, given: tuple[Any, ...], more: dict[str, Any], way: partial[Tensor] | None, looks: bool) -> None:
        words, entries = (ctypes.c_int64 * FORM)(), self._entries
        place = self._place(given, more, ctypes.addressof(words))
        if place < 0 or entries[place + FORM]:
            return
        if len(self._held) >= _MOST:
            self._forget()
            place = self._place(given, more, ctypes.addressof(words))
        self._held.append(way)
        entries[place : place + FORM] = words[:]
        # Last, for other threads look things up meanwhile.
        entries[place + FORM] = USED + LOOKS * looks + (0 if way is None else id(way.keywords))

    def _remember_tame(self, mask: Tensor) -> None:
        """Gradients beside this mask are right, until it is written to."""
        address, place = id(mask), 2 * ((id(mask) >> 4) % 2**MASK_BITS)

        def forget(_gone: Any) -> None:
            if self._masks[place] == address:
                self._masks[place] = 0

        self._masks[place] = 0
        self._looked_at[place] = ref(mask, forget)
        self._masks[place + 1] = mask._version
        self._masks[place] = address

    def forget(self, _short_bytes: int) -> None:
        """Know no form any more, for whoever chooses in another way."""
        with self._adding:
            self._forget()

    def _forget(self) -> None:
        ctypes.memset(self._entries, 0, ctypes.sizeof(self._entries))
        self._held.clear()


_made: list[Front] = []


def front_of(python: Callable[..., Any]) -> Front | None:
    """A function in C in front of one in Python, unless there can be none or ``ATTENIO_FRONT=0`` asks for none."""
    if _is_unwanted() or not (_is_expected_python() and has_compiler()):
        return None
    _made.append(Front(python))
    return _made[-1]


def why_no_front() -> str | None:
    """What is in the way of a compiled front of ``attention()``, if anything is; it is compiled now at the latest."""
    if _is_unwanted():
        return "ATTENIO_FRONT=0 asks for none"
    if not has_compiler():
        return "llvmlite is not installed"
    if not _made:
        return "this Python keeps its objects in another way"
    return None if _made[0].is_compiled() else _made[0].why_not


def _is_unwanted() -> bool:
    return os.environ.get("ATTENIO_FRONT") == "0"


def _spelled(python: Callable[..., Any]) -> str:
    """The signature as functions in C have it, without types."""
    own = signature(python)
    bare = [each.replace(annotation=each.empty) for each in own.parameters.values()]
    return str(own.replace(parameters=bare, return_annotation=own.empty))


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    if not address:
        raise LookupError("a function without an address")
    return address


def _call_slot(kind: type) -> Any:
    """Where a class has the function in C that calls its objects."""
    return ctypes.c_void_p.from_address(id(kind) + _CALL_SLOT)


def _grad_mode() -> Any:
    """The function in C that says whether gradients are enabled: where it lies, or as PyTorch promises it."""
    folder = Path(torch.__path__[0], "lib")
    for library, name in (("c10.*", "_ZN3c108GradMode10is_enabledEv"), ("torch_cpu.*", _PROMISED_GRAD_MODE)):
        for path in (*folder.glob(library), *folder.glob(f"lib{library}")):
            function = getattr(ctypes.CDLL(str(path)), name, None)
            if function is not None:
                return function
    raise LookupError("this PyTorch does not tell C whether gradients are enabled")


def _is_expected_python() -> bool:
    """Whether objects lie in memory as they do in CPython with a lock, and PyTorch's function is one in C."""
    flags = pythonapi["PyCFunction_GetFlags"]
    flags.restype, flags.argtypes = ctypes.c_int, [ctypes.py_object]
    if not isinstance(scaled_dot_product_attention, BuiltinFunctionType):
        return False
    locked = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
    called, other, silent = (type("_Class", (), each) for each in ({"__call__": print}, {"__call__": len}, {}))
    slots = [_call_slot(each).value for each in (called, other, silent, BuiltinFunctionType)]
    placed = slots[0] == slots[1] != slots[2] is None and slots[3] not in (None, slots[0])
    pair = {1: 2, 3: 4}
    counted = ctypes.c_int64.from_address(id(pair) + object.__basicsize__).value == len(pair)
    sizes = object.__basicsize__ == 16 and float.__basicsize__ == 24 and ctypes.sizeof(ctypes.c_void_p) == 8
    return locked and sizes and counted and placed and flags(scaled_dot_product_attention) == _ARGUMENTS_AND_NAMES
