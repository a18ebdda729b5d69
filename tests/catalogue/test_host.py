"""Laws of ``--machine host``: measured once, kept, shown, and measured again when what is kept is not about here."""

import json
from pathlib import Path

import pytest

from attenio import Workload, best_plan
from attenio.catalogue import host as module
from attenio.catalogue import machine_named
from attenio.catalogue.caches import host_machine
from attenio.elements import ElementType
from attenio.machine import Machine


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "_SECONDS", 0.001)
    monkeypatch.setattr(module, "_LARGEST_ARRAY_BYTES", 2**22)
    module.host.cache_clear()
    yield tmp_path
    module.host.cache_clear()


def again() -> Machine:
    module.host.cache_clear()
    return machine_named("host")


def test_the_host_has_its_caches_and_a_rate_for_every_level(own_folder: Path) -> None:
    machine = machine_named("Host")
    assert [level.capacity_bytes for level in machine.levels] == [
        level.capacity_bytes for level in host_machine().levels
    ]
    assert all(level.bandwidth_bytes_per_s for level in machine.levels[1:])
    rates = [level.bandwidth_bytes_per_s for level in machine.levels[1:]]
    assert rates == sorted(rates, reverse=True)
    assert machine.flops_per_s[ElementType.FP32] > 0 and machine.exponentials_per_s
    assert str(own_folder) in machine.source and "measured with NumPy on" in machine.source
    assert best_plan(Workload(n=64, d=8, dtype="fp32"), "host").gap >= 1


def test_rates_are_measured_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    first = machine_named("host")
    monkeypatch.setattr(module, "_measured", lambda *_: pytest.fail("measured again"))
    assert again() == first


def test_rates_measured_beside_other_work_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "getloadavg", lambda: (9.25, 0.0, 0.0), raising=False)
    assert "while other work ran (load 9.2 on" in machine_named("host").source
    monkeypatch.setattr(module.os, "getloadavg", lambda: (0.0, 0.0, 0.0), raising=False)
    assert "load 9.2" in again().source  # as it was when they were measured
    module.kept_file().unlink()
    assert "other work" not in again().source


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"bytes_per_s": 3}', "null", "signature", "negative"])
def test_a_file_that_is_not_ours_or_about_another_computer_is_measured_again(damage: str) -> None:
    machine_named("host")
    file = module.kept_file()
    kept = json.loads(file.read_text())
    text = damage
    if damage == "signature":
        text = json.dumps({**kept, "signature": "1 processors, 1 x L1 8 B"})
    elif damage == "negative":
        text = json.dumps({**kept, "flops_per_s": -1.0})
    file.write_text(text)
    again()
    assert json.loads(file.read_text())["signature"] == kept["signature"]
    assert json.loads(file.read_text())["flops_per_s"] > 0


def test_a_home_that_cannot_be_written_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert "not kept, since" in again().source
