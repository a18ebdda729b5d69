"""Functions that numba compiles: once on a computer, then read from files beside their source.

Most of them are called by other compiled functions only. Those go without the code that unpacks Python's arguments,
which for tuples of a dozen arrays is more than the function itself and would take half of the time to compile.

The file of a function is made anew when its own source changes, not when a function that it calls does: after changing
one of them, remove the ``__pycache__`` folders here.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

# Its own types do not list every option.
_njit = cast(Any, njit)
called_from_python: Callable[[F], F] = _njit(cache=True, no_cfunc_wrapper=True)
compiled: Callable[[F], F] = _njit(cache=True, no_cfunc_wrapper=True, no_cpython_wrapper=True)
