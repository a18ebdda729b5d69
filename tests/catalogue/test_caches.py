"""This machine's caches."""

from hypothesis import given
from hypothesis import strategies as st

from any_text import CHARACTERS
from attenio.catalogue import caches


def a_cache(folder, index, **fields):
    there = folder / f"index{index}"
    there.mkdir()
    for name, text in fields.items():
        (there / name).write_text(text + "\n")


def test_caches_are_read_as_linux_states_them(tmp_path):
    a_cache(tmp_path, 0, level="1", type="Data", size="48K", shared_cpu_list="0")
    a_cache(tmp_path, 1, level="1", type="Instruction", size="32K", shared_cpu_list="0")
    a_cache(tmp_path, 2, level="2", type="Unified", size="2048K", shared_cpu_list="0-1")
    a_cache(tmp_path, 3, level="3", type="Unified", size="32M", shared_cpu_list="0-3,8-11")
    levels = caches._linux_caches(tmp_path, 16)
    assert [(level.name, level.capacity_bytes, level.units) for level in levels] == [
        ("L1", 48 * 2**10, 16), ("L2", 2**21, 8), ("L3", 2**25, 2),
    ]  # fmt: skip


@given(st.text(CHARACTERS, max_size=20))
def test_whatever_stands_there_nothing_breaks(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("caches")
    a_cache(folder, 0, level="1", type="Data", size=text.replace("\r", ""), shared_cpu_list="0")
    assert isinstance(caches._linux_caches(folder, 4), tuple)


def test_a_machine_that_states_nothing_gets_the_documented_sizes(monkeypatch, tmp_path):
    monkeypatch.setattr(caches, "_CACHES", tmp_path / "absent")
    machine = caches.host_machine.__wrapped__()
    if machine.source.startswith("assumed"):
        assert {level.name: level.capacity_bytes for level in machine.levels[:-1]} == caches.FALLBACK_BYTES
