"""Importing attenio needs NumPy only; what needs PyTorch says so in one line."""

import subprocess
import sys

import pytest

from attenio.errors import how_to_install

BLOCKED = "import sys; sys.modules['torch'] = None; import attenio"


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_attenio_does_not_import_torch():
    assert python("import attenio, sys; assert 'torch' not in sys.modules").returncode == 0


def test_without_torch_one_line_names_the_extra():
    for name in ("attention", "explain"):
        done = python(
            f"{BLOCKED}\ntry:\n    attenio.{name}()\nexcept attenio.AttenioError as problem:\n    print(problem)"
        )
        assert done.stdout.strip() == f"attenio.{name} needs the 'torch' extra: {how_to_install('torch')}"


def test_without_torch_the_names_are_there_and_have_help():
    done = python(
        f"{BLOCKED}\nimport pydoc\nassert hasattr(attenio, 'attention') and callable(attenio.explain)\n"
        "shown = pydoc.render_doc(attenio, renderer=pydoc.plaintext)\n"
        "assert 'attention(' in shown and 'needs PyTorch' in shown\n"
        "from attenio import *\nassert attention.__name__ == 'attention' and best_plan"
    )
    assert done.returncode == 0, done.stderr


def test_without_torch_modules_that_need_it_name_the_extra():
    done = python(f"{BLOCKED}\nfrom attenio.kernels.transformers import register")
    assert done.stderr.splitlines()[-1].endswith(f"needs the 'torch' extra: {how_to_install('torch')}")
    done = python(f"{BLOCKED}\nimport runpy\nrunpy.run_module('attenio.measurement', run_name='__main__')")
    assert done.returncode == 2
    assert done.stderr == f"attenio: attenio.measurement needs the 'torch' extra: {how_to_install('torch')}\n"


def test_other_names_are_still_unknown():
    assert "has no attribute 'nothing'" in python("import attenio; attenio.nothing").stderr


@pytest.fixture(scope="module")
def without_triton_and_transformers():
    """What is said about each, by one process: importing PyTorch takes seconds."""
    done = python(
        "import sys; sys.modules['triton'] = sys.modules['transformers'] = None\n"
        "import torch, attenio\n"
        "from attenio.kernels.choice import backend_of\n"
        "from attenio.kernels.transformers import register\n"
        "q = torch.randn(1, 1, 3, 4)\n"
        "assert attenio.attention(q, q, q).shape == q.shape\n"
        "for refused in (lambda: backend_of(torch.empty(1, device='meta')), register):\n"
        "    try:\n        refused()\n"
        "    except attenio.errors.MissingExtra as problem:\n        print(problem)"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_without_triton_a_gpu_is_refused_in_one_line_and_the_cpu_works(without_triton_and_transformers):
    said, _ = without_triton_and_transformers
    assert said == f"attention on a GPU needs the 'triton' extra: {how_to_install('triton')}"


def test_without_transformers_registering_names_the_extra(without_triton_and_transformers):
    _, said = without_triton_and_transformers
    assert said.endswith(f"needs the 'transformers' extra: {how_to_install('transformers')}")


def test_without_torch_the_rest_works():
    done = python(
        f"{BLOCKED}\nprint(attenio.best_plan(attenio.Workload(n=64, d=8), attenio.Machine.with_fast_bytes(4096)))"
    )
    assert done.returncode == 0 and done.stdout, done.stderr
