"""Kernels that stand in for better ones, which threads compile meanwhile.

A call of a new size may want a kernel that is not compiled yet, which takes seconds. Where one that is compiled can
compute the call, it does, and the better one is compiled on a thread; from the moment that it is there it runs. Nothing
is remembered of a call that a stand-in computed. What is asked to repeat to the bit waits for the best kernel, since
another kernel rounds differently.

Threads that compile are none of the daemons that Python leaves behind when it ends: one of these that came back from
C++ then would end the process with "terminate called without an active exception". A process that ends waits for
what is being compiled, and begins nothing more.
"""

import threading
import warnings
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from attenio.kernels.replay import replay_enabled, stand_ins_allowed
from attenio.kernels.replay.compiling import compiles_only

_thread = threading.local()
_begun: dict[Hashable, Future[None]] = {}
_beginning = threading.Lock()
# Kernels that are compiled at once: more would take processors from the calls that they are compiled for.
_at_once = threading.Semaphore(2)
_said: set[str] = set()
_of_all_threads = 0


class Awaited(NamedTuple):
    """The launch of a better kernel, and what is to be compiled for it."""

    better: Any
    compiling: tuple[Future[Any], ...]

    @property
    def is_ready(self) -> bool:
        """Whether all of it is compiled."""
        return all(each.done() and each.exception() is None for each in self.compiling)

    @property
    def has_failed(self) -> bool:
        """Whether something of it cannot be compiled; a warning says so once."""
        for each in self.compiling:
            if each.done() and (problem := each.exception()) is not None:
                _say(f"a better kernel could not be compiled, and another one runs in its place: {problem}")
                return True
        return False

    def wait(self) -> None:
        """Until all of it is compiled, or has failed: whoever launches it is told why then."""
        for each in self.compiling:
            each.exception()


def _say(text: str) -> None:
    if text not in _said:
        _said.add(text)
        warnings.warn(text, stacklevel=3)


def may_stand_in(*, deterministic: bool) -> bool:
    """Whether a call may run on a kernel that is not the best."""
    if deterministic or not (stand_ins_allowed() and replay_enabled()):
        return False
    return not (compiles_only() or getattr(_thread, "waits", False) or torch.are_deterministic_algorithms_enabled())


@contextmanager
def waiting() -> Iterator[None]:
    """Nothing stands in for what this thread chooses in here."""
    before = getattr(_thread, "waits", False)
    _thread.waits = True
    try:
        yield
    finally:
        _thread.waits = before


def begin(key: Hashable, compile_it: Callable[[], object]) -> Future[None]:
    """Compile something on a thread, once for each key."""
    with _beginning:
        if key not in _begun:
            _begun[key] = Future()
            try:
                threading.Thread(target=_compile, args=(_begun[key], compile_it), name="compiling").start()
            except RuntimeError as problem:  # the process ends
                _begun[key].set_exception(problem)
        return _begun[key]


def begun(key: Hashable) -> Future[None] | None:
    """What ``begin`` gave for a key."""
    return _begun.get(key)


def _compile(future: Future[None], compile_it: Callable[[], object]) -> None:
    with _at_once:
        try:
            if not threading.main_thread().is_alive():
                raise RuntimeError("the process ends")
            compile_it()
        except BaseException as problem:
            future.set_exception(problem)
        else:
            future.set_result(None)


def note_stand_in() -> None:
    """A launch of this thread stood in for a better one."""
    global _of_all_threads
    _thread.count = stand_ins() + 1
    _of_all_threads += 1


def stand_ins() -> int:
    """How many launches of this thread did."""
    return getattr(_thread, "count", 0)


def stand_ins_of_all_threads() -> int:
    """How many did, those of backward passes among them: for a study."""
    return _of_all_threads
