"""A word now and then to those who wait: the first search on a computer is compiled; its time limit begins later."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from time import monotonic
from typing import Any

from attenio.cli.output import print_aside
from attenio.quantities import show_seconds

_TOLD = "compiling the search, a minute or two, once on this computer; the time limit begins after that"
_AGAIN_SECONDS = 30.0


@contextmanager
def telling_of_compiling() -> Iterator[Callable[[], float]]:
    """A clock that leaves out all time until the compiler was last done in here, as time limits do.

    Say that compiling takes a while when the compiler sets to work on anything in here, and then that it goes on.

    What was compiled before is read from files, of which nothing is said, nor of what is refused before it is compiled.
    Without a compiler nothing is said: the engine is about to say which extra has it.
    """
    if find_spec("numba") is None:
        yield monotonic
        return
    from numba.core.event import Listener, install_listener

    class Teller(Listener):  # type: ignore[misc, unused-ignore]  # numba is untyped
        began = due = left_out = 0.0

        def on_start(self, event: Any) -> None:
            now = monotonic()
            if now >= self.due:
                print_aside(f"still compiling after {show_seconds(round(now - self.began))}" if self.began else _TOLD)
                self.began, self.due = self.began or now, now + _AGAIN_SECONDS

        def on_end(self, event: Any) -> None:
            self.left_out = monotonic() - entered

    teller, entered = Teller(), monotonic()
    with install_listener("numba:compile", teller):
        yield lambda: monotonic() - teller.left_out


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
