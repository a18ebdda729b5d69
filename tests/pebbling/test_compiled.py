"""What one process compiled, another one finds: a computer compiles each search once."""

import subprocess
import sys

import pytest

PROGRAM = """
from attenio.pebbling import ComputationGraph, Game, Variant
from attenio.pebbling.compiled import noticing
from attenio.pebbling.graphs.product import product
from attenio.pebbling.graphs.pyramid import pyramid
from attenio.pebbling.scheduling import find_schedule
from attenio.pebbling.solving.cp_sat import cp_sat
from attenio.pebbling.solving.search import best_first

with noticing() as compiling:
    for variant in Variant:
        for graph in (product(2, 2, 2), pyramid(4)):
            game = Game(graph=graph, red=5, variant=variant)
            best_first(game, time_limit_s=20)
            find_schedule(game, time_limit_s=0.5)
    cp_sat(game, time_limit_s=5)
print(compiling.began)
"""


@pytest.mark.parametrize("wanted", ["compile_search", "compile_scheduling"])
def test_compiling_is_noticed_and_reading_from_files_is_not(wanted):
    import numba

    from attenio.pebbling.compiled import noticing
    from attenio.pebbling.scheduling.search import compile_scheduling
    from attenio.pebbling.solving.search.solver import compile_search

    functions = {"compile_search": compile_search, "compile_scheduling": compile_scheduling}
    functions[wanted]()
    with noticing() as compiling:
        functions[wanted]()
    assert not compiling.began
    with noticing() as compiling:
        numba.njit(lambda x: x + 5)(1)
    assert compiling.began


def test_another_process_finds_every_kind_of_search_compiled():
    from attenio.pebbling.scheduling.search import compile_scheduling
    from attenio.pebbling.solving.search.solver import compile_search

    compile_search()
    compile_scheduling()
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.strip() == "False", done.stderr[-2000:]


def test_compiling_has_no_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    from itertools import count

    from attenio.pebbling.solving.search import solver

    hours = count(step=3600.0)
    monkeypatch.setattr(solver, "perf_counter", lambda: next(hours))
    solver.compile_search.__wrapped__()


def test_an_interrupted_compilation_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    from attenio.pebbling.solving.search import solver

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(solver._Search, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        solver.compile_search.__wrapped__()
