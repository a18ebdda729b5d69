"""Laws of ``attenio machines``."""

from pathlib import Path
from typing import Any

import pytest

from attenio.catalogue import machine_named, machines


def test_every_machine_is_listed(attenio: Any) -> None:
    said = attenio("machines")
    assert said.status == 0
    assert all(machine.name in said.out for machine in machines())
    assert [machine["name"] for machine in attenio("machines", "--json").json] == [m.name for m in machines()]


@pytest.mark.parametrize("machine", machines(), ids=[machine.name for machine in machines()])
def test_the_json_of_a_machine_is_a_machine_file(attenio: Any, tmp_path: Path, machine: Any) -> None:
    file = tmp_path / "copy.yaml"
    file.write_text(attenio("machines", machine.name, "--json").out)
    assert machine_named(str(file)) == machine


def test_one_machine_is_shown_with_its_source(attenio: Any) -> None:
    said = attenio("machines", "H100")
    assert said.status == 0
    assert "132" in said.out
    assert "whitepaper" in said.out


def test_an_unknown_machine_is_one_line_with_a_suggestion(attenio: Any) -> None:
    assert "did you mean h200?" in attenio("machines", "h20").mistake


def test_the_accelerator_of_a_machine_is_shown(attenio: Any) -> None:
    assert "accelerator: 64 lines of 32 MACs, 128 EXP modules" in " ".join(
        attenio("machines", "attenio-512k").out.split()
    )
    assert "accelerator" not in attenio("machines", "h100", "--json").json
