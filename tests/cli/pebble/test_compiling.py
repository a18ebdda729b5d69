import numba

from attenio.cli import main
from attenio.cli.pebble import compiling
from attenio.cli.pebble.compiling import telling_of_compiling

TOLD = "attenio: compiling the search, about a minute, once on this computer; the time limit begins after that\n"


def test_compiling_is_told_when_it_begins_and_once(capsys):
    first, second = numba.njit(lambda x: x + 1), numba.njit(lambda x: x + 2)
    with telling_of_compiling():
        assert capsys.readouterr().err == ""
        first(1), second(1)
        assert capsys.readouterr().err == TOLD


def test_compiling_that_goes_on_is_told_now_and_then(capsys, monkeypatch):
    clock = iter([10.0, 20.0, 75.0, 80.0, 110.0])
    monkeypatch.setattr(compiling, "monotonic", lambda: next(clock))
    with telling_of_compiling():
        for more in range(5):
            numba.njit(lambda x, more=more: x + more)(1)
    still = "attenio: still compiling after {} s\n"
    assert capsys.readouterr().err == TOLD + still.format(65) + still.format(100)


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
