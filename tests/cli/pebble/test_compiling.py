import numba

from attenio.cli import main
from attenio.cli.output import progress_bar
from attenio.cli.pebble import compiling
from attenio.cli.pebble.compiling import telling_of_compiling

TOLD = "attenio: compiling the search, a minute or two, once on this computer; the time limit begins after that\n"


def test_compiling_is_told_when_it_begins_and_once(capsys):
    first, second = numba.njit(lambda x: x + 1), numba.njit(lambda x: x + 2)
    with telling_of_compiling():
        assert capsys.readouterr().err == ""
        first(1), second(1)
        assert capsys.readouterr().err == TOLD


def test_compiling_that_goes_on_is_told_now_and_then(capsys, monkeypatch):
    # on entry, and then where each begins and ends
    clock = iter([9.0, 10.0, 15.0, 20.0, 25.0, 75.0, 76.0, 80.0, 81.0, 110.0, 111.0])
    monkeypatch.setattr(compiling, "monotonic", lambda: next(clock))
    with telling_of_compiling():
        for more in range(5):
            numba.njit(lambda x, more=more: x + more)(1)
    still = "attenio: still compiling after {} s\n"
    assert capsys.readouterr().err == TOLD + still.format(65) + still.format(100)


def test_progress_tells_seconds_since_all_was_compiled_as_limits_count_them(capsys, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(compiling, "monotonic", lambda: seconds[-1])
    with telling_of_compiling() as clock, progress_bar("searching", clock) as progress:
        for more in (40.0, 95.0):
            seconds.append(more)
            numba.njit(lambda x, more=more: x + more)(1)
        capsys.readouterr()
        for more in (96.0, 104.0, 106.0):
            seconds.append(more)
            progress(3, 4)
    assert capsys.readouterr().err == "attenio: searching: 75% after 11 s\n"


def test_nothing_is_told_of_what_was_compiled_before(capsys):
    compiled = numba.njit(lambda x: x + 3)
    compiled(1)
    with telling_of_compiling():
        compiled(2)
    assert capsys.readouterr().err == ""


def test_without_a_compiler_nothing_is_told(monkeypatch, capsys):
    monkeypatch.setattr(compiling, "find_spec", lambda _: None)
    with telling_of_compiling():
        pass
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


def test_a_game_too_large_to_search_is_refused_in_one_line(capsys):
    assert main(["pebble", "solve", "--graph", "attention", "--n", "64", "--d", "8", "--red", "600"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
