"""Laws of ``attenio models``."""

import json
from pathlib import Path
from typing import Any

import pytest

from attenio.catalogue import machines, models


def test_every_model_is_listed(attenio: Any) -> None:
    said = attenio("models")
    assert said.status == 0
    assert all(model.name in said.out for model in models())
    listed = attenio("models", "--json").json
    assert [(model["name"], model["prefill"]["heads"]) for model in listed] == [
        (m.name, m.prefill.heads) for m in models()
    ]


def test_names_are_whole_at_80_columns(attenio: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = attenio("models").out
    assert all(f"\n{model.name} " in said for model in models())
    assert max(map(len, said.splitlines())) <= 80
    listed = attenio("machines").out
    assert all(f"\n{machine.name} " in listed for machine in machines())


def test_one_model_is_shown_with_both_of_its_forms(attenio: Any) -> None:
    said = attenio("models", "deepseek-v3")
    assert said.status == 0
    assert "decode" in said.out
    assert "arXiv 2412.19437" in said.out
    assert attenio("models", "deepseek-v3", "--json").json["decode"] == {
        "heads": 128,
        "kv_heads": 1,
        "d": 576,
        "value_dim": 512,
        "values_in_keys": True,
    }


def test_a_config_file_is_shown_like_a_model(attenio: Any, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"n_head": 2, "n_embd": 64, "n_layer": 3}))
    assert attenio("models", file, "--json").json["layers"] == 3
    assert attenio("models", file).status == 0
    file.write_text('{"n_head": 2,')
    assert "config.json line 1: " in attenio("models", file).mistake
