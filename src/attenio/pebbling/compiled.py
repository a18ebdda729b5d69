"""Functions that numba compiles: once on a computer, then read from files beside their source.

Most of them are called by other compiled functions only. Those go without the code that unpacks Python's arguments,
which for tuples of a dozen arrays is more than the function itself and would take half of the time to compile.
They have no files either, for whoever calls them has them in its own. A constant that one is handed is an
``np.int64``: for literals a function is compiled once more for each value.

The file of a function is made anew when its own source changes, not when a function that it calls does: after changing
one of them, remove the ``__pycache__`` folders here.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.event import Listener, install_listener

F = TypeVar("F", bound=Callable[..., Any])

# Its own types do not list every option.
_njit = cast(Any, njit)
called_from_python: Callable[[F], F] = _njit(cache=True, no_cfunc_wrapper=True)
compiled: Callable[[F], F] = _njit(no_cfunc_wrapper=True, no_cpython_wrapper=True)


class Compiling(Listener):  # type: ignore[misc, unused-ignore]  # numba is untyped
    """Whether the compiler set to work on anything; what was read from files does not count."""

    began = False

    def on_start(self, event: Any) -> None:
        """Called by the compiler."""
        self.began = True

    def on_end(self, event: Any) -> None:
        """Called by the compiler."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Garbage waits in here: to look through what the compiler makes is up to a quarter of its time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def noticing() -> Iterator[Compiling]:
    """Notice whether anything is compiled in here."""
    listener = Compiling()
    with install_listener("numba:compile", listener):
        yield listener
