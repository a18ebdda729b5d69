"""What works without the extras, asked of one process for each kind: importing PyTorch takes seconds."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from attenio.errors import how_to_install

ROOT = Path(__file__).parents[2]

WITH_TORCH = """
import sys
for name in ("typer", "rich", "plotly", "yaml", "ml_dtypes", "hypothesis"):
    sys.modules[name] = None
import io, json, torch, attenio
from contextlib import redirect_stdout
from attenio.kernels.replay.tape import _Watch
found = {}

def said(function, *arguments):
    with redirect_stdout(io.StringIO()) as text:
        function(*arguments)
    return text.getvalue()

q = torch.randn(1, 2, 3, 4)
found["log-sum-exps"] = attenio.attention(q, q, q, return_lse=True)[1].shape
with _Watch() as watch:
    torch.empty(3).add(1)
found["watched"] = watch.computes, len(watch.allocated)
found["compiler"] = "torch._dynamo" in sys.modules

from attenio.measurement.__main__ import main as measure
bench = ["bench", "--n", "16", "--d", "8", "--dtype", "fp32", "--device", "cpu", "--repeats", "1"]
found["bench"] = json.loads(said(measure, bench))

from fuzz import Case
from fuzz.__main__ import main as fuzz
from fuzz.shrinking import reproduction
exec(reproduction([(Case(queries=5, keys=7, mode="gradients"), Case(mask="boolean"))], "cpu"))
found["fuzz"] = said(fuzz, ["--calls", "3"])

sys.modules["triton"] = sys.modules["transformers"] = None
from attenio.kernels.choice import backend_of
from attenio.kernels.transformers import register
assert attenio.attention(q, q, q).shape == q.shape
for name, refused in (("triton", lambda: backend_of(torch.empty(1, device="meta"))), ("transformers", register)):
    try:
        refused()
    except attenio.errors.MissingExtra as problem:
        found[name] = str(problem)
print(json.dumps(found))
"""

WITHOUT_TORCH = """
import sys
found = {}
import attenio
found["imports torch"] = "torch" in sys.modules
sys.modules["torch"] = None
import json, pydoc, runpy

def refused(function, *arguments, **options):
    try:
        function(*arguments, **options)
    except (attenio.AttenioError, AttributeError) as problem:
        return str(problem)
    except SystemExit as end:
        return end.code

found["attention"], found["explain"] = refused(attenio.attention), refused(attenio.explain)
found["help"] = pydoc.render_doc(attenio, renderer=pydoc.plaintext)
found["unknown"] = refused(lambda: attenio.nothing)
from attenio import *
found["names"] = attention.__name__, best_plan.__name__
found["plan"] = str(attenio.best_plan(attenio.Workload(n=64, d=8), attenio.Machine.with_fast_bytes(4096)))
found["register"] = refused(runpy.run_module, "attenio.kernels.transformers")
found["measurement"] = refused(runpy.run_module, "attenio.measurement", run_name="__main__")
print(json.dumps(found))
"""


def told(program: str) -> tuple[dict[str, Any], str]:
    """What the process found, and its standard error."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "src", ROOT / "tests")))},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def with_torch() -> dict[str, Any]:
    if find_spec("torch") is None:
        pytest.skip("needs torch")
    return told(WITH_TORCH)[0]


@pytest.fixture(scope="module")
def without_torch() -> tuple[dict[str, Any], str]:
    return told(WITHOUT_TORCH)


def test_recording_a_call_or_asking_for_log_sum_exps_does_not_import_pytorchs_compiler(
    with_torch: dict[str, Any],
) -> None:
    """It takes seconds, in the second call of a process."""
    assert with_torch["log-sum-exps"] == [1, 2, 3] and with_torch["watched"] == [True, 1]
    assert with_torch["compiler"] is False


def test_numpy_and_torch_are_enough_to_time(with_torch: dict[str, Any]) -> None:
    found = with_torch["bench"]
    assert found["contenders"][0]["name"] == "attenio" and found["contenders"][0]["samples_ms"]
    assert found["torch"] and found["provenance"]["date"]


def test_numpy_and_torch_are_enough_to_fuzz_and_what_is_printed_runs_by_itself(with_torch: dict[str, Any]) -> None:
    assert with_torch["fuzz"].startswith("seed 0 on ") and "0 failed" in with_torch["fuzz"]


def test_without_triton_a_gpu_is_refused_in_one_line_and_the_cpu_works(with_torch: dict[str, Any]) -> None:
    assert with_torch["triton"] == f"attention on a GPU needs the 'triton' extra: {how_to_install('triton')}"


def test_without_transformers_registering_names_the_extra(with_torch: dict[str, Any]) -> None:
    assert with_torch["transformers"].endswith(f"needs the 'transformers' extra: {how_to_install('transformers')}")


def test_without_torch_one_line_names_the_extra_and_the_rest_works(without_torch: tuple[dict[str, Any], str]) -> None:
    found, _ = without_torch
    needs = f"needs the 'torch' extra: {how_to_install('torch')}"
    assert found["imports torch"] is False
    assert all(found[name] == f"attenio.{name} {needs}" for name in ("attention", "explain"))
    assert found["plan"] and "has no attribute 'nothing'" in found["unknown"]


def test_without_torch_the_names_are_there_and_have_help(without_torch: tuple[dict[str, Any], str]) -> None:
    found, _ = without_torch
    assert found["names"] == ["attention", "best_plan"]
    assert "attention(" in found["help"] and "needs PyTorch" in found["help"]


def test_without_torch_modules_that_need_it_name_the_extra(without_torch: tuple[dict[str, Any], str]) -> None:
    found, said = without_torch
    needs = f"needs the 'torch' extra: {how_to_install('torch')}"
    assert found["register"].endswith(needs) and found["measurement"] == 2
    assert said == f"attenio: attenio.measurement {needs}\n"
