from pathlib import Path

import pytest

from attenio.cli.pebble import compiling
from attenio.cli.pebble.compiling import tell_of_compiling


def test_compiling_is_told_before_the_first_search_only(monkeypatch, capsys):
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    tell_of_compiling("solving/search_", "scheduling/")
    assert "compiling the search, once" in capsys.readouterr().err
    monkeypatch.setattr(Path, "glob", lambda *_: iter([Path("search_table.advance.nbi")]))
    tell_of_compiling("solving/search_", "scheduling/")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("module", ["solving/search_", "scheduling/"])
def test_without_a_compiler_nothing_is_told(monkeypatch, capsys, module):
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    monkeypatch.setattr(compiling, "find_spec", lambda _: None)
    tell_of_compiling(module)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")
