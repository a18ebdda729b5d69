"""Laws of ``attenio bench``."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attenio.errors import how_to_install

SMALL = (
    "bench",
    "--n",
    48,
    "--heads",
    4,
    "--kv-heads",
    2,
    "--d",
    16,
    "--dtype",
    "fp32",
    "--device",
    "cpu",
    "--repeats",
    2,
)


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("mask", ["dense", "causal", "window:9"])
def test_ours_and_every_backend_of_sdpa_are_timed_and_right(attenio: Any, direction: str, mask: str) -> None:
    found = attenio(*SMALL, "--direction", direction, "--mask", mask, "--json").json
    assert [each["name"] for each in found["contenders"]] == ["attenio", "sdpa flash", "sdpa math"]
    timed = [each for each in found["contenders"] if each["refused"] is None]
    assert timed[0]["name"] == "attenio" and len(timed) >= 2
    for each in timed:
        assert len(each["samples_ms"]) == 2
        assert each["max_abs_error"] < 1e-4
    assert found["ratio_to_best_peer"] > 0
    assert {"version", "commit", "date"} <= set(found["provenance"])


def test_decode_is_timed_and_the_table_names_everybody(attenio: Any) -> None:
    said = attenio(
        "bench", "--keys", 300, "--decode", "--mask", "causal", "--dtype", "bf16", "--repeats", 1, "--device", "cpu"
    )
    assert said.status == 0, said.err
    assert all(word in said.out for word in ("attenio", "sdpa flash", "sdpa math", "of roof", "GB/s"))


def test_samples_are_kept_in_a_file_and_drawn_from_it(attenio: Any, tmp_path: Path) -> None:
    file, page = tmp_path / "bench.json", tmp_path / "bench.html"
    found = attenio(*SMALL, "--out", file, "--json").json
    assert json.loads(file.read_text()) == [found]
    said = attenio(*SMALL, "--out", file, "--plot", page)
    assert said.status == 0 and str(page) in said.out
    assert json.loads(file.read_text())[0]["contenders"] == found["contenders"]
    assert "sdpa math" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--mask", "documents:8,8"), "dense, causal and window"),
        (("--direction", "training"), "one pass at a time"),
        (("--dtype", "fp8"), "fp32, fp16 or bf16"),
        (("--device", "tpu"), "cpu or cuda"),
        (("--machine", "h100"), "machine at hand"),
        (("--plot", "bench.png"), "ending in .html"),
        (("--out", "nowhere/bench.json"), "does not exist"),
    ],
)
def test_what_cannot_be_timed_is_refused_in_one_line(attenio: Any, options: tuple[str, ...], said: str) -> None:
    assert said in attenio("bench", "--n", 16, *options).mistake


def test_without_torch_one_line_names_the_extra() -> None:
    code = "import sys; sys.modules['torch'] = None; from attenio.cli import main; sys.exit(main(['bench']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"attenio: bench needs the 'torch' extra: {how_to_install('torch')}\n"


@pytest.mark.parametrize(
    ("repeats", "line"),
    [
        ("0", "repeats is 0; it must be at least 1"),
        ("x", "repeats is 'x'; write a whole number"),
        ("2K", "up to 1,000"),
    ],
)
def test_samples_are_counted_from_one(attenio: Any, repeats: str, line: str) -> None:
    assert line in attenio("bench", "--repeats", repeats).mistake
