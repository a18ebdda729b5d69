"""A word to those who wait: the first search on a computer is compiled, and its time limit begins after that."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from attenio.cli.output import print_aside

_TOLD = "compiling the search, about a minute, once on this computer; the time limit begins after that"


@contextmanager
def telling_of_compiling() -> Iterator[None]:
    """Say once that compiling takes a while, when the compiler sets to work on anything in here.

    What was compiled before is read from files, of which nothing is said, nor of what is refused before it is compiled.
    Without a compiler nothing is said: the engine is about to say which extra has it.
    """
    if find_spec("numba") is None:
        yield
        return
    from numba.core.event import Listener, install_listener

    class Teller(Listener):  # type: ignore[misc, unused-ignore]  # numba is untyped
        told = False

        def on_start(self, event: Any) -> None:
            if not self.told:
                self.told = True
                print_aside(_TOLD)

        def on_end(self, event: Any) -> None:
            pass

    with install_listener("numba:compile", Teller()):
        yield


def compile_for_schedules() -> None:
    """Have the search for large graphs compiled; if it was not before, the other one too: who waits waits once."""
    if find_spec("numba") is None:
        return
    from attenio.pebbling.compiled import noticing
    from attenio.pebbling.scheduling.search import compile_scheduling
    from attenio.pebbling.solving.search.solver import compile_search

    with noticing() as compiling:
        compile_scheduling()
    if compiling.began:
        compile_search()
